"""Records in files: TFRecord, Parquet, CSV, compressed or not, by splits and in blocks."""
