"""The directory of a job, beside its logs: notes, code, files, who ended it."""
