"""Logs of tasks: by range, searched, as they grow."""
