"""Archives classified: many files of texts to as many files of answers, on many machines, so that a job that is killed can be run again."""
