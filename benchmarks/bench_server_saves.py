"""Checkpoints of hash tables that servers write and read themselves, against all rows through the chief's process.

Four servers, one table of width 16 with Adam, a gigabyte of rows. `--other DIRECTORY` is a checkout of 80de9be1, the
version before, with its library built; without it there is nothing to compare. Sides take turns, each with processes of
its own; the first save and restore of a process, which trace, are left out. Cases: files on the local disk (with
`--hdfs` in HDFS: a NameNode and a DataNode on this machine, by Java and Maven), and the same as a storage that gives
each client so many bytes a second.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from report import MISSED, publish, result
from size import sized

from afo import storage
from afo_client.hadoop import Cluster, ClusterSpec

PROJECT = Path(__file__).parent.parent
SERVERS = 4
#: Bytes a second of each process; 0: as fast as it goes.
LIMITS = {"": 0, "50 MB/s each process": 50e6}
WHAT = ("save", "restore")
MEASURES = {"chief": "processor time of the chief", "servers": "processor time of the servers", "wall": "time"}
#: What the kernel counts processor time in. Seconds.
TICK = 0.01
#: By measure and case: how many times better ours has to be.
AT_LEAST = {
    ("chief", ""): 5.0,
    ("wall", ""): 0.9,
    ("wall", "50 MB/s each process"): 3.0,
}


@contextmanager
def place(on_hdfs: bool) -> Iterator[str]:
    """URL of an empty directory."""
    with tempfile.TemporaryDirectory() as folder:
        if not on_hdfs:
            yield folder
            return
        cluster = Cluster(Path(folder) / "hadoop")
        try:
            cluster.start(ClusterSpec(nodes=1))
            os.environ["HADOOP_CONF_DIR"] = str(cluster.conf_dir)
            yield f"{cluster.hdfs_uri}/saves"
        finally:
            cluster.stop()


def turns(checkout: Path, url: str, rows: int, count: int, limit: float) -> list[dict[str, Any]]:
    """What a side's process tells of its turns, without the first."""
    paths = [str(checkout), str(checkout / "client")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, Path(__file__).parent / "save_side.py", "measure", url]
    numbers = (SERVERS, rows, count + 1, limit)
    done = subprocess.run(
        [*command, *map(str, numbers)], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()][1:]


def measured(given: argparse.Namespace, url: str) -> dict[tuple[str, ...], list[float]]:
    """Seconds by case, what was done, measure and side."""
    found: dict[tuple[str, ...], list[float]] = {}
    sides = {"ours": PROJECT, "theirs": given.other.resolve()}
    for number, (case, limit), (side, checkout) in product(range(given.rounds), LIMITS.items(), sides.items()):
        directory = f"{url}/{number}-{side}"
        for turn in turns(checkout, directory, given.rows, given.turns, limit):
            for what, measure in product(WHAT, MEASURES):
                found.setdefault((case, what, measure, side), []).append(turn[what][measure])
        storage.delete(directory, recursive=True)
    return found


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--other", type=Path, default=sized(None, PROJECT))
    options.add_argument("--rows", type=int, default=sized(4_800_000, 2000))
    options.add_argument("--rounds", type=int, default=sized(3, 1))
    options.add_argument("--turns", type=int, default=sized(2, 1), help="of each side in each round")
    options.add_argument("--hdfs", action="store_true")
    given = options.parse_args()
    if given.other is None:
        print("no `--other DIRECTORY` was given: nothing to compare")
        return 0
    with place(given.hdfs) as url:
        found = measured(given, url)
    claims = []
    for case, what, measure in product(LIMITS, WHAT, MEASURES):
        ours, theirs = (statistics.median(found[case, what, measure, side]) for side in ("ours", "theirs"))
        print(f"{what}, {case or 'as fast as it goes'}, {measure}: {ours:.2f} s, before {theirs:.2f} s")
        if (measure, case) in AT_LEAST:
            name = ", ".join(part for part in (what, case, MEASURES[measure]) if part)
            bar = AT_LEAST[measure, case]
            claims.append(result(name, max(ours, TICK), theirs, "s", bar, lower_is_better=True))
    return 0 if publish("server_saves", claims) else MISSED


if __name__ == "__main__":
    sys.exit(main())
