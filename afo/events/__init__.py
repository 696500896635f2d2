"""The events of a job: their types, the log of them, and what is folded out of it."""
