"""What a program of a job prints: kept on its node within a cap, and copied to the job's directory while it runs."""
