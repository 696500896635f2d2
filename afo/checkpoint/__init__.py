"""Checkpoints: written, found, read back, taken over by another model."""
