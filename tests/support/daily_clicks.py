"""Clicks day by day, whose features come and go, for jobs that run every day."""

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from afo.data.example import encode
from afo.data.feature import Feature
from afo.data.io.tfrecord import RecordWriter
from afo.data.schema import Schema

#: Bytes of a TFRecord before its data (length and checksum) and after (checksum).
_HEAD, _FOOT = 12, 4
CITIES = ("Bonn", "Ulm", "Trier", "Celle")
DEVICES = ("phone", "tablet", "desk")
FEATURES = {
    "user": Feature(name="user", kind="categorical", hash_buckets=200),
    "city": Feature(name="city", kind="string", vocab=CITIES),
    "liked": Feature(name="liked", kind="categorical", shape=(2,), hash_buckets=40),
    "device": Feature(name="device", kind="string", vocab=DEVICES),
    "age": Feature(name="age", kind="dense"),
}


def schema(names: Sequence[str]) -> Schema:
    """These features alone; the records hold all of them."""
    return Schema(label="label", sample_id="sample_id", features=tuple(FEATURES[name] for name in names))


def write_day(directory: Path, day: int, files: int, records: int, *, without_city: float = 0.0) -> None:
    """`part-*` to train on and `eval-00`, of `records` each; a share of all has no city. No `_SUCCESS` yet."""
    generator = np.random.default_rng(day)
    directory.mkdir(parents=True, exist_ok=True)
    names = [f"part-{number:02d}" for number in range(files)] + ["eval-00"]
    for number, name in enumerate(names):
        with RecordWriter(str(directory / f"{name}.tfrecord")) as writer:
            for place in range(records):
                identity = (day * 100 + number) * 1_000_000 + place
                writer.write(encode(_record(generator, identity, without_city)))


def _record(generator: np.random.Generator, identity: int, without_city: float) -> dict[str, list[object]]:
    city, age, device = int(generator.integers(4)), float(generator.uniform(10, 80)), int(generator.integers(3))
    log_odds = (-2.0, -0.5, 0.5, 2.0)[city] + (age - 45) / 20 + (-0.5, 0.0, 0.5)[device]
    record: dict[str, list[object]] = {
        "user": [1 + int(generator.integers(100))],
        "city": [CITIES[city]],
        "liked": (1 + generator.integers(0, 30, 2)).tolist(),
        "device": [DEVICES[device]],
        "age": [age],
        "label": [int(generator.random() < 1 / (1 + np.exp(-log_odds)))],
        "sample_id": [identity],
    }
    if generator.random() < without_city:
        del record["city"]
    return record


def spoil(path: Path, places: Sequence[int]) -> set[int]:
    """Change a byte in these records of a file; returns them."""
    content = bytearray(path.read_bytes())
    start = place = 0
    while start < len(content):
        (length,) = struct.unpack_from("<Q", content, start)
        if place in places:
            content[start + _HEAD + length // 2] ^= 1
        start += _HEAD + length + _FOOT
        place += 1
    path.write_bytes(content)
    return set(places)
