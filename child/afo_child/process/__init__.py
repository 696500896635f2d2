"""The TensorFlow process of a task: what it is given, its starts, its output."""
