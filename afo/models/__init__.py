"""Models: what is computed from a batch, without where its parameters live."""
