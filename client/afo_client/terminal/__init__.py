"""Output on a terminal: words, tables, JSON, streams that may be closed. Knows nothing of jobs."""
