"""What the Child finds in its container, and what its processes use of it."""
