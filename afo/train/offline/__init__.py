"""Work with a saved model on one machine, without a cluster."""
