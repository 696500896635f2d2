"""Pauses that differ, so that not everybody comes back at once, and are the same for a restarted AM. Pure."""

import zlib


def spread(words: str) -> float:
    """From 0 to 1, by the words alone."""
    return zlib.crc32(words.encode()) / 2**32
