"""What a job's log and files say, folded into values. Pure."""
