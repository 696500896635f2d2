"""Rows of embedding tables in files, and the desk by which a server saves and loads its own; without TensorFlow."""
