"""Settings found by trying: a search by Optuna, whose trials are short trainings, and the training of the best."""
