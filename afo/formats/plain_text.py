"""Text of a job, of its data or of YARN as it may be shown: nothing in it steers a terminal or a page."""

import re

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
#: Control characters but for tabs and ends of lines; characters that turn the direction of the text around them, with
#: which a line could show something else than it holds; and halves of a character, which cannot be written.
STEERING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str, instead: str = "") -> str:
    """The text without terminal escapes; `instead` of each other character that steers. Not escaped for HTML."""
    return text if text.isprintable() else STEERING.sub(instead, _ESCAPES.sub("", text))
