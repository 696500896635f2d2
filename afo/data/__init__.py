"""Training data: schemas, TFRecord files, tf.Example records, splits, synthetic data, metrics; no TensorFlow here."""
