"""What holds on this machine and for this user, beside a job's file."""
