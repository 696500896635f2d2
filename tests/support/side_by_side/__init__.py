"""The same faults against afo and against TensorFlow alone: `make compare-faults`."""
