"""A linear model of n-grams beside the encoder. Only ``context_weights``, ``ngram_embeddings`` and ``fit`` need TensorFlow."""
