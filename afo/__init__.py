"""afo: AI framework on YARN."""

__version__ = "0.1.0"
