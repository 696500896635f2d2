"""Last words of a local job's Application Master that ended without a verdict, from the end of its log. Pure."""

#: Of which they are taken: a log may be of any size.
MOST_BYTES = 64 << 10
#: Older lines may be of a start before the last, and of what it got over.
_LAST_LINES = 15
#: How an Application Master begins the line that says why it ends.
_ERROR = "error: "
_TRACEBACK = "Traceback (most recent call last):"


def last_words(log: bytes) -> str:
    """The reason that it gave for its end; '' where it gave none, as one that was killed."""
    lines = log.decode(errors="replace").splitlines()
    words, inside = "", False
    for number, line in enumerate(lines):
        # A traceback's own lines are indented; the first that is not names the exception.
        ends_traceback = inside and not line.startswith(" ")
        if (ends_traceback or line.startswith(_ERROR)) and number >= len(lines) - _LAST_LINES:
            words = line
        inside = line == _TRACEBACK or (inside and not ends_traceback)
    return words


def end_words(log: bytes) -> str:
    """Why it ended without a verdict: its last words, else the last lines of its log."""
    lines = log.decode(errors="replace").splitlines()[-_LAST_LINES:]
    return last_words(log) or "\n".join(("the end of its log:", *(lines or ("it is empty",))))
