"""The two ways to run a job, on YARN and on this machine, as the client sees them."""
