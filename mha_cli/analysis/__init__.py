"""Evaluation, comparison and inspection of trained models: functions from a checkpoint to a dataclass."""
