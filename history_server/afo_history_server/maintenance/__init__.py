"""Maintenance of jobs, by the server itself or when asked: closes, deletes, ends, draws with TensorBoard."""
