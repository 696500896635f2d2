"""`python killed_saver.py DIRECTORY`: trains tables whose values follow from the step, and saves all the time.

Every checkpoint is in `DIRECTORY/<step>`, whole or a delta of the one before. Whoever finds checkpoints there goes on
from the newest one that has a manifest. Ended by SIGKILL, at whatever moment.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from afo import embedding
from afo.embedding.checkpoint import TableSaver, restore
from afo.job import Momentum
from afo.tables.saved_tables import MANIFEST

KEYS = 20_000
#: Keys of a step: whole numbers, so that all sums are exact.
BATCH = 2_000


def keys_of(step: int) -> Any:
    """What a step updates: each key once."""
    return (np.arange(BATCH) * 7 + step * 1301) % KEYS


def tables(servers: int, name: str) -> list[Any]:
    """Two variables of different widths."""
    group = embedding.TableGroup(["/device:CPU:0"] * servers, name=name)
    rule = Momentum(learning_rate=1.0, momentum=1.0)
    return [
        embedding.get_embedding_variable(each, dim, optimizer=rule, initializer=0.0, group=group)
        for each, dim in (("wide", 1), ("deep", 8))
    ]


def train(variables: list[Any], step: int) -> None:
    """One step: with momentum 1 and gradient 1 a row that was updated u times is -u (u + 1) / 2 then."""
    with embedding.EmbeddingTape() as tape:
        rows = embedding.group_embedding_lookup_sparse(variables, [keys_of(step)] * 2, [None] * 2)
        loss = tf.add_n([tf.reduce_sum(each) for each in rows])
    tape.gradient(loss)
    tape.apply(step=step)


def updates(steps: int) -> Any:
    """How often each key was updated in the first `steps` steps: int64 [KEYS]."""
    found = np.zeros(KEYS, np.int64)
    for step in range(steps):
        found[keys_of(step)] += 1
    return found


def newest(directory: Path) -> int:
    """Step of the newest checkpoint that has a manifest; 0 if there is none."""
    return max((int(each.parent.name) for each in directory.glob(f"*/{MANIFEST}")), default=0)


def main(directory: Path) -> None:
    """Until it is killed."""
    variables = tables(3, "saver")
    step = newest(directory)
    if step:
        restore(variables[0].group, str(directory / str(step) / MANIFEST))
    saver = TableSaver(variables[0].group)
    while True:
        train(variables, step)
        step += 1
        # A try that was killed has left its files; nobody writes into its directory again.
        if not (directory / str(step)).exists():
            saver.save(str(directory / str(step)), incremental=step % 5 != 0)
            print("saved", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
