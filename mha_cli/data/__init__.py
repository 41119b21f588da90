"""Where labelled reviews come from, and how they become batches."""
