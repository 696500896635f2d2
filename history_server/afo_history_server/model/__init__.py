"""A job's log and files, folded into values. Pure."""
