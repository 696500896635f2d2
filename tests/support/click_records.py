"""A small data set of clicks in TFRecord or Parquet files, and what an acknowledgement of a file must say."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from afo.data.example import decode, encode
from afo.data.feature import Feature
from afo.data.io.tfrecord import RecordWriter, read_records
from afo.data.schema import Schema

SCHEMA = Schema(
    label="label",
    sample_id="sample_id",
    features=(
        Feature(name="user", kind="categorical", hash_buckets=500),
        Feature(name="city", kind="string", vocab=("Bonn", "Ulm", "Trier")),
        Feature(name="liked", kind="categorical", shape=(2,), hash_buckets=40),
        Feature(name="age", kind="dense", buckets=(20.0, 40.0, 60.0)),
    ),
)
CITIES = ("Bonn", "Ulm", "Trier", "Köln")


def write_files(directory: Path, files: int, records: int, prefix: str = "part", first_id: int = 0) -> None:
    """`files` files of about `records` records: a click depends on city and age."""
    generator = np.random.default_rng(first_id + 1)
    directory.mkdir(parents=True, exist_ok=True)
    identity = first_id
    for number in range(files):
        with RecordWriter(str(directory / f"{prefix}-{number:02d}.tfrecord")) as writer:
            for _ in range(records + 7 * number):
                city, age = int(generator.integers(len(CITIES))), float(generator.uniform(10, 80))
                log_odds = (-1.5, 0.0, 1.5, 0.5)[city] + (age - 45) / 15
                writer.write(
                    encode(
                        {
                            "user": [int(generator.zipf(1.5))],
                            "city": [CITIES[city]],
                            "liked": generator.integers(0, 30, 2).tolist(),
                            "age": [age],
                            "label": [int(generator.random() < 1 / (1 + np.exp(-log_odds)))],
                            "sample_id": [identity],
                        }
                    )
                )
                identity += 1


def as_parquet(source: Path, target: Path, **more: pa.Array) -> None:
    """The records of a TFRecord file that `write_files` wrote, as columns, and further columns."""
    records = [decode(record) for record in read_records(str(source))]
    columns: dict[str, pa.Array] = {
        name: pa.array(np.concatenate([record[name] for record in records]))
        for name in ("user", "age", "label", "sample_id")
    }
    columns["city"] = pa.array([record["city"][0].decode() for record in records])  # type: ignore[union-attr]
    columns["liked"] = pa.array([record["liked"].tolist() for record in records])  # type: ignore[union-attr]
    pq.write_table(pa.table({**columns, **more}), target, row_group_size=64)


def expected_acks(files: int, records: int) -> list[tuple[int, int]]:
    """Count and xor of each file that `write_files` writes."""
    acks = []
    identity = 0
    for number in range(files):
        xor = 0
        for each in range(identity, identity + records + 7 * number):
            xor ^= splitmix64(each)
        identity += records + 7 * number
        acks.append((records + 7 * number, xor))
    return acks


def splitmix64(value: int) -> int:
    """Steele, Lea and Flood (2014)."""
    mask = 2**64 - 1
    z = (value + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)
