"""A process that saves tables is killed at any moment, again and again: the newest checkpoint is always good."""

import itertools
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import killed_saver  # noqa: E402
from afo.embedding import embedding_lookup  # noqa: E402
from afo.embedding.checkpoint import restore  # noqa: E402
from afo.tables.saved_tables import MANIFEST, read_rows  # noqa: E402

pytestmark = pytest.mark.tensorflow

_numbers = itertools.count()


@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.kills)])
def test_the_newest_checkpoint_is_whole_after_a_kill_at_any_moment(tmp_path: Path, kills: int) -> None:
    chance = random.Random(kills)
    reached = []
    for _ in range(kills):
        run_until(tmp_path, chance.uniform(0.05, 1.5))
        step = killed_saver.newest(tmp_path)
        assert_state(tmp_path, step)
        reached.append(step)
    assert reached == sorted(reached), "none is lost"
    assert reached[-1] >= kills, "it went on each time"
    torn = [each for each in tmp_path.iterdir() if not (each / MANIFEST).exists()]
    print(f"{kills} kills, {reached[-1]} checkpoints, {len(torn)} of them torn")


def run_until(directory: Path, seconds: float) -> None:
    """A new process, killed so long after its first save."""
    command = [sys.executable, killed_saver.__file__, str(directory)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as saver:
        assert saver.stdout is not None
        assert saver.stdout.readline() == b"saved\n"
        time.sleep(seconds)
        saver.kill()


def assert_state(directory: Path, step: int) -> None:
    """Tables out of the newest checkpoint are what its step says, on another number of servers and without any."""
    url = str(directory / str(step) / MANIFEST)
    variables = killed_saver.tables(2, f"restored/{next(_numbers)}")
    restore(variables[0].group, url)
    counts = killed_saver.updates(step)
    expected = -counts * (counts + 1) / 2
    for variable in variables:
        assert variable.total_count() == np.count_nonzero(counts)
        found = embedding_lookup(variable, np.arange(killed_saver.KEYS)).numpy()
        np.testing.assert_array_equal(found, np.repeat(expected[:, np.newaxis], variable.embedding_dim, axis=1))
    for keys, weights in read_rows(url).values():
        np.testing.assert_array_equal(weights[:, 0], expected[keys])
