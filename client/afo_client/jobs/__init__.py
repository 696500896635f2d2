"""Jobs that were submitted: found, looked at, followed, explained, ended."""
