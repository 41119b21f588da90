"""What a trained model is worth, and why: functions from a checkpoint to a dataclass."""
