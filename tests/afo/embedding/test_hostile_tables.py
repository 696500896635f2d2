"""Saved tables whose checksums are right and whose contents cannot be: every reader refuses them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from afo import embedding
from afo.embedding.checkpoint import take_over
from afo.embedding.merged_rows import merge_rows
from afo.embedding.saved_tables import SavedTable, read_rows
from afo.errors import DataError
from saved_chain import block, save

pytestmark = pytest.mark.tensorflow

TABLES = (SavedTable("a", 4, "Adagrad", 1), SavedTable("b", 4, "Adagrad", 1))


def refused(url: str, words: str) -> None:
    """By those that read into memory and into files."""
    with pytest.raises(DataError, match=words):
        read_rows(url)
    with pytest.raises(DataError, match=words):
        merge_rows(url, Path(url).parent)


@pytest.mark.parametrize("width", [0, 1, 3, 5, 12])
def test_rows_of_another_width(tmp_path: Path, width: int) -> None:
    """numpy would make a wide row of a narrow one."""
    rows = block({1: 7.0, 2: 8.0}, 4)._replace(values=np.ones((2, width), np.float32))
    url = save(tmp_path / "w", TABLES, [[(1, rows)]])
    refused(url, rf"rows-0000-0\.afo is damaged: rows of {width} floats of table `b`, whose rows .* have 4 or 8")


@pytest.mark.parametrize(("optimizer", "width"), [("Adagrad", 4), ("Adagrad", 8), ("Sgd", 4), ("Adam", 12)])
def test_weights_alone_and_with_slots_are_read(tmp_path: Path, optimizer: str, width: int) -> None:
    rows = block({1: 7.0, 2: 8.0}, 4)._replace(values=np.ones((2, width), np.float32))
    url = save(tmp_path / "w", [SavedTable("a", 4, optimizer, 1)], [[(0, rows)]])
    assert read_rows(url)["a"].weights.shape == (2, 4)


def test_weights_of_another_width_are_not_taken_over(new_group: Callable[[int], Any], tmp_path: Path) -> None:
    rows = block({1: 7.0}, 4)._replace(values=np.ones((1, 1), np.float32))
    url = save(tmp_path / "w", [SavedTable("a", 4, "Adagrad", 1)], [[(0, rows)]])
    group = new_group(1)
    embedding.get_embedding_variable("a", 4, optimizer=embedding.Adagrad(), group=group)
    with pytest.raises(DataError, match="rows of 1 floats of table `a`"):
        take_over(group, url, {"a"}, ())
