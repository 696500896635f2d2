"""What a check says."""


class Broken(Exception):
    """A promise of the Application Master does not hold."""
