"""Where labelled texts come from, and how they become batches."""
