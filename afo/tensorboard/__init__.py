"""TensorBoard over summaries that may lie in HDFS."""
