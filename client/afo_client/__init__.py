"""The command line of afo."""
