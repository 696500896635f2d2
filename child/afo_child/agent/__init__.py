"""The loop of a Child, and what it does next."""
