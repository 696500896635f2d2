"""Processes of this machine: begun, bounded, locked, found again, looked at."""
