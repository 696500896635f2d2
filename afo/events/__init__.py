"""What happens to a job, the log of it, and what is folded out of it."""
