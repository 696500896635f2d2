"""What the server does to jobs, by itself or when asked: closes, deletes, ends, draws with TensorBoard."""
