"""What is printed, and how: words, tables, JSON, streams that may be closed. Knows nothing of jobs."""
