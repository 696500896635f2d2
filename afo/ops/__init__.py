"""TensorFlow operations in C++ over the engine in `afo/core`."""
