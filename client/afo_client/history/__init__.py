"""This user's own history server, and the API of any."""
