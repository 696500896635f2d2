"""Logs of a job's programs: kept on their node within a cap, and copied to the job's directory while they run."""
