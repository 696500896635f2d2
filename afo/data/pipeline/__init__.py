"""The input pipeline: from splits to batches, ahead of the steps."""
