"""The Application Master's decisions: policies over the state."""
