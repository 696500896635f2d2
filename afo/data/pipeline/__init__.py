"""From splits to batches, ahead of the steps."""
