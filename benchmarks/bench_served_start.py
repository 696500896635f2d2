"""A server's start with tables that are mapped, against tables that are read into memory first, and lookups of both.

Wide & Deep with 4 GB of native tables. *Start*: from the call that loads the model to the answer to a request of 50
records, in a new process each, by `afo.serving` and by `tf.saved_model.load`; with all files in the system's cache, and
with none. *Read*: the same model, whose tables have the form without an index of earlier versions, which are read,
checked and indexed before anything is answered. The answers have to be equal to the bit.

*Lookups*: random keys of a table with rows of 16, nine of ten of which are there; batches of 500 and 8,192, by turns:
`native` once its rows were copied, and `mapped` once all its pages are, against rows that were read.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import json
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

import google_crc32c
import numpy as np
from random_model import RandomModel, records
from report import MISSED, publish, result
from size import sized

RECORDS, DIM = 50, 16
LOADERS = ("afo.serving", "saved_model.load")


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--keys", type=int, default=sized(4_500_000, 60_000), help="Rows of each of 20 tables.")
    options.add_argument("--rounds", type=int, default=sized(5, 1))
    options.add_argument("--rows", type=int, nargs="*", default=sized([2_000_000, 12_000_000], [80_000]),
                         help="Of the tables of lookups.")  # fmt: skip
    options.add_argument("--start", nargs=2, metavar=("LOADER", "MODEL"), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.start:
        start(*given.start, given.keys)
    with tempfile.TemporaryDirectory(prefix="afo-start-") as scratch:
        results = starts(Path(scratch), given.keys, given.rounds)
        for rows in given.rows:
            results += lookups(Path(scratch), rows, sized(300, 3))
    return 0 if publish("served_start", results) else MISSED


def _model(keys: int) -> RandomModel:
    return RandomModel(categorical=10, dense=5, keys=keys)


def starts(scratch: Path, keys: int, rounds: int) -> list[dict[str, object]]:
    """What a start takes, for each way to load and each state of the cache."""
    mapped = Path(_model(keys).export(scratch))
    read = scratch / "read"
    shutil.copytree(mapped, read)
    for file in (read / "assets").glob("*.rows"):
        take_blocks_off(file)
    size = sum(file.stat().st_size for file in (read / "assets").iterdir())
    print(f"{size / 1e9:.2f} GB of keys and rows", flush=True)
    results = []
    for loader in LOADERS:
        for is_cached in (True, False):
            seconds: dict[Path, list[float]] = {mapped: [], read: []}
            answers = set()
            for _ in range(rounds):
                for model, taken in seconds.items():
                    ready_cache(model, is_cached)
                    took, answer = started(loader, model, keys)
                    taken.append(took)
                    answers.add(answer)
            assert len(answers) == 1, "the two answer differently"
            name = f"start by {loader}, files {'in the cache' if is_cached else 'on disk'}"
            medians = [statistics.median(taken) for taken in seconds.values()]
            results.append(result(name, *medians, "s", 5.0, lower_is_better=True))
            print(f"{name}: {medians[0]:.3f} against {medians[1]:.3f} s", flush=True)
    return results


def take_blocks_off(file: Path) -> None:
    """Rewrite a table in the form without index (afo/core/served_table.h)."""
    from afo.trainable.served.rows_header import rows_at

    other = file.with_suffix(".other")
    with file.open("rb") as source, other.open("wb") as sink:
        _, kind, dim, count, _, _, _, absent = struct.unpack("<8sIIQQQQf", source.read(52))
        assert kind == 0
        header = b"AFOROWS1" + struct.pack("<IIQf", kind, dim, count, absent)
        sink.write(header + struct.pack("<I", google_crc32c.value(header)))
        source.seek(rows_at(""))
        left, checksum = count * (8 + 4 * dim), google_crc32c.Checksum()
        while left:
            piece = source.read(min(left, 1 << 24))
            checksum.update(piece)
            sink.write(piece)
            left -= len(piece)
        sink.write(checksum.digest()[::-1])
    other.replace(file)


def ready_cache(model: Path, is_cached: bool) -> None:
    """All files of a model in the system's cache, or none."""
    for path in model.rglob("*"):
        if not path.is_file():
            continue
        with path.open("rb") as file:
            os.fsync(file.fileno())
            if not is_cached:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while is_cached and file.read(1 << 24):
                pass


def started(loader: str, model: Path, keys: int) -> tuple[float, str]:
    """What `start` prints, of a new process."""
    done = subprocess.run(
        [sys.executable, __file__, "--keys", str(keys), "--start", loader, str(model)],
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    seconds, answer = json.loads(done.stdout)
    return seconds, answer


def start(loader: str, model: str, keys: int) -> NoReturn:
    """Print the seconds to the first answer, and the answer, and end the process. What is imported was before."""
    asked = records(_model(keys).samples(RECORDS))
    if loader == "afo.serving":
        from afo.serving import Processor, processor_library

        processor_library.load()
        began = time.perf_counter()
        answer = Processor(model).predict({"examples": asked})["probabilities"]
    else:
        import tensorflow as tf

        from afo.ops.library import load

        load()
        examples = tf.constant(asked)
        began = time.perf_counter()
        loaded = tf.saved_model.load(model)
        answer = loaded.signatures["serving_default"](examples=examples)["probabilities"].numpy()
    seconds = time.perf_counter() - began
    # As it is: threads may be at work.
    print(json.dumps([seconds, answer.tobytes().hex()]), flush=True)
    os._exit(0)


def lookups(scratch: Path, rows: int, rounds: int) -> list[dict[str, object]]:
    """Million keys a second."""
    from afo.ops.library import load
    from afo.tables.saved_tables import Rows
    from afo.trainable.served.rows_file import write_rows

    operations, random = load(), np.random.default_rng(1)
    keys = np.unique(random.integers(-(2**63), 2**63 - 1, rows))
    path = scratch / f"lookups-{rows}"
    with path.open("wb") as file:
        write_rows(file, Rows(keys, np.ones((len(keys), DIM), np.float32)), 0.0, "float32")
    read = scratch / "lookups-read"
    shutil.copy(path, read)
    take_blocks_off(read)
    handles = {}
    for name, of in (("read", read), ("native", path), ("mapped", path)):
        handles[name] = operations.afo_served_table(shared_name=f"{name}/{rows}")
        operations.afo_load_served_table(handles[name], str(of), stays_mapped=name == "mapped")
    time.sleep(sized(8.0, 0.5))  # what goes on behind them
    results = []
    for batch in (500, 8192):
        speeds: dict[str, list[float]] = {name: [] for name in handles}
        for _ in range(rounds):
            there = random.choice(keys, batch - batch // 10)
            asked = random.permutation(np.concatenate([there, random.integers(-(2**63), 2**63 - 1, batch // 10)]))
            for name in random.permutation(list(handles)):
                began = time.perf_counter()
                operations.afo_lookup_served(handles[name], asked, dim=DIM)
                speeds[name].append(batch / (time.perf_counter() - began) / 1e6)
        million = {name: statistics.median(each) for name, each in speeds.items()}
        results += [
            result(f"{name} against read, {rows / 1e6:g} M rows, batches of {batch}", million[name], million["read"],
                   "M keys/s", least, lower_is_better=False)
            for name, least in (("native", 0.95), ("mapped", 0.4))
        ]  # fmt: skip
    for path_ in (path, read):
        path_.unlink()
    for handle in handles.values():
        _forget(handle)
    return results


def _forget(handle: Any) -> None:
    import tensorflow as tf

    tf.raw_ops.DestroyResourceOp(resource=handle)


if __name__ == "__main__":
    sys.exit(main())
