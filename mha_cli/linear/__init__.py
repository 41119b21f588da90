"""N-gram scores of a text: a linear model beside the encoder, fitted before it. Only ``salience`` and ``fit`` need TensorFlow."""
