"""The container: what the Child finds in it, and what its processes use of it."""
