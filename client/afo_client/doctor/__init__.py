"""Checks of `afo doctor` on this machine and the cluster."""
