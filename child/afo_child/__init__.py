"""The in-container launcher of afo."""
