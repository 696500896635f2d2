"""The history server of afo."""
