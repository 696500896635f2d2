"""Saved models and checkpoints, as verbs name and use them without a job."""
