"""The Application Master of afo."""
