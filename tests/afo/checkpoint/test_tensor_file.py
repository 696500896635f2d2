"""NumPy's files whose checksums are right and whose headers are not: an error, and an older checkpoint."""

import struct
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from afo.checkpoint import manifest, tensor_file
from afo.checkpoint.manifest import Manifest, Part
from afo.checkpoint.restore import from_newest_complete
from afo.errors import DataError

pytestmark = pytest.mark.tensorflow


def header(shape: str, descr: str = "<f4", order: str = "False") -> bytes:
    text = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


DAMAGED = {
    "huge": header("(1099511627776,)") + b"1234",
    "objects": header("(1,)", "|O") + b"cos\nsystem\n(S'true'\ntR.",
    "empty": b"",
    "a magic alone": b"\x93NUMPY",
    "integers": header("(2,)", "<i8") + bytes(16),
    "texts": header("(2,)", "<U1") + bytes(8),
    "a row too much": header("(2,)") + bytes(12),
    "a row less": header("(2,)") + bytes(4),
    "by columns": header("(2, 1)", order="True") + bytes(8),
    "nothing of very much": header("(0, 1099511627776, 1099511627776)"),
    "too many dimensions": header(f"({'1, ' * 33})") + bytes(4),
    "no shape": header("(2, None)") + bytes(8),
    "deep": header("(" * 500 + ")" * 500) + bytes(8),
    "newer": b"\x93NUMPY\x02\x00" + header("(2,)")[8:] + bytes(8),
}


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (0, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
@pytest.mark.parametrize("mapped", [False, True])
def test_what_numpy_has_saved_is_read(tmp_path: Path, shape: tuple[int, ...], dtype: str, mapped: bool) -> None:
    value, path = np.ones(shape, dtype), tmp_path / "t.npy"
    np.save(path, value)
    if mapped and value.size == 0:
        return  # a table has rows
    found = tensor_file.load(path, "it", dtype, mapped=mapped)
    np.testing.assert_array_equal(found, value)
    assert (found.shape, found.dtype) == (value.shape, value.dtype)


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("mapped", [False, True])
def test_another_header_is_an_error(tmp_path: Path, content: bytes, mapped: bool) -> None:
    (tmp_path / "t.npy").write_bytes(content)
    with pytest.raises(DataError, match="it is damaged: "):
        tensor_file.load(tmp_path / "t.npy", "it", "float32", mapped=mapped)


def save(directory: Path, step: int, content: bytes) -> str:
    """A checkpoint of one tensor, committed."""
    folder = directory / f"g000001-{step}"
    folder.mkdir(parents=True)
    path = folder / "dense.0.npy"
    path.write_bytes(content)
    part = Part("dense", path.name, 0, 1, path.stat().st_size, manifest.checksum_of(path))
    saved = Manifest(
        version=manifest.FORMAT_VERSION, generation=1, step=step, final=False, directory=folder.name, rows={},
        parts=(part,),
    )  # fmt: skip
    return manifest.commit(str(directory), saved)[0]


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_an_older_checkpoint_is_taken(tmp_path: Path, content: bytes) -> None:
    older = save(tmp_path / "all", 10, header("(2,)") + bytes(8))
    url = save(tmp_path / "all", 20, content)
    found, value, problems = from_newest_complete(
        url, str(tmp_path / "all"), tmp_path, lambda reader: reader.whole("dense").tolist()
    )
    assert (found, value) == (older, [0, 0])
    assert len(problems) == 1
    assert "dense.0.npy is damaged" in problems[0]
