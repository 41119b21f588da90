"""One reading of the texts: as numbers, counted, divided, in batches."""
