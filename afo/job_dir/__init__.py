"""What lies in a job's directory beside its logs: notes, code, files, who ended it."""
