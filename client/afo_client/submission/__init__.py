"""Submission, from a job file to a job: what it names is looked at, tried, planned and started once."""
