"""Labels for texts that have none: which text next, where the labels are kept, and a model that learns beside it."""
