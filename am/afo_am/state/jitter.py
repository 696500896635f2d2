"""Jitter of pauses: not everybody comes back at once, and a restarted AM computes the same. Pure."""

import zlib


def jitter(words: str) -> float:
    """From 0 to 1, by the words alone."""
    return zlib.crc32(words.encode()) / 2**32
