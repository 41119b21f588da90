"""All that a training or an evaluation reads: settings, texts, vocabulary, and the model that a run starts from."""
