"""Training data: schemas, TFRecord files, tf.Example records, splits, synthetic data and metrics; no TensorFlow here."""
