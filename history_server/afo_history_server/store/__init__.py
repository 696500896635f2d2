"""Jobs as they lie in the file system: found, read, kept, listed."""
