"""NumPy's file of a tensor, of which nothing is read that its header and its size do not fit.

A checksum says that a file is as the manifest has it, and not that a checkpoint wrote it. What numpy makes of another
header is a traceback, or as much memory as the header likes.
"""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from afo.errors import DataError

#: Format 1.0, as `numpy.save` writes a plain tensor.
_MAGIC = b"\x93NUMPY\x01\x00"
#: Before the text: the magic and the text's length, little-endian.
_TEXT_AT = len(_MAGIC) + 2
_MOST_TEXT = 1 << 10
_TEXT = re.compile(
    rb"\{'descr': '([<>|][A-Za-z][0-9]{1,3})', 'fortran_order': False,"
    rb" 'shape': \(((?:\d{1,18}, ?){0,31}(?:\d{1,18})?)\), \} *\n"
)


def load(path: Path, where: str, dtype: str, *, mapped: bool) -> Any:
    """The tensor of a local file; `mapped`: read when it is used. Raises DataError, which calls the file `where`."""
    head = _head(path)
    text = _TEXT.fullmatch(head[_TEXT_AT:])
    if not head.startswith(_MAGIC) or text is None:
        raise DataError(f"{where} is damaged: it is no tensor that a checkpoint has")
    found, wanted = text[1].decode(), np.lib.format.dtype_to_descr(np.dtype(dtype))
    if found != wanted:
        raise DataError(f"{where} is damaged: its values are {found}, where a checkpoint of this model has {wanted}")
    shape = [int(size) for size in text[2].split(b",") if size.strip()]
    size = len(head) + np.dtype(dtype).itemsize * math.prod(shape)
    # Without an empty dimension too, for numpy multiplies the others.
    if size != path.stat().st_size or math.prod(filter(None, shape)) >= 1 << 48:
        raise DataError(f"{where} is damaged: {path.stat().st_size} bytes for the shape {shape}")
    return np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)


def _head(path: Path) -> bytes:
    """All before the values; what there is of it in a file that is none, or has a longer one."""
    with path.open("rb") as file:
        head = file.read(_TEXT_AT)
        length = int.from_bytes(head[len(_MAGIC) :], "little")
        return head + file.read(min(length, _MOST_TEXT))
