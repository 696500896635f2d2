"""Files that a saved model is to read."""

import gzip
from pathlib import Path

import pytest

from afo.data.io.tfrecord import RecordWriter
from afo.errors import DataError
from afo.protocol.offline_task import NumberedFile
from afo_client.models.offline import input_files


def test_files_are_numbered(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with RecordWriter(str(tmp_path / name), "gzip") as writer:
            writer.write(b"text in a record")
    assert input_files([f"{tmp_path}/*"], 3) == [NumberedFile(3, f"{tmp_path}/a"), NumberedFile(4, f"{tmp_path}/b")]


@pytest.mark.parametrize("name", ["day.csv", "day.csv.gz"])
def test_csv_is_no_records(tmp_path: Path, name: str) -> None:
    rows = b"imp_id,user\n1,2\n"
    (tmp_path / name).write_bytes(gzip.compress(rows) if name.endswith(".gz") else rows)
    with pytest.raises(DataError, match=rf"{name} holds no records; it looks like text: `afo data convert` writes"):
        input_files([f"{tmp_path}/*"])
