"""Configuration of this machine and this user, beside a job's file."""
