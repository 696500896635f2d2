"""A model that goes from one checkpoint to the next."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from afo.data.example import encode
from afo.job import Data, Embedding, Job, Model, RoleSpec, Wide

pytestmark = pytest.mark.tensorflow


class Values:
    """Stands for the reader of a checkpoint whose tensors are random."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def table(self, _name: str, rows: int, width: int) -> Any:
        """Rows of a table."""
        return self._random.normal(size=(rows, width)).astype(np.float32)

    def whole(self, name: str) -> Any:
        """The dense weights, or the sums for the standardisation of one value."""
        if name == "dense":
            return self._random.normal(size=self.dense_rows).astype(np.float32)
        return np.array([[10.0], [400.0], [20000.0]])

    def hash_tables(self, dims: Mapping[str, int]) -> dict[str, Any]:
        """Rows of the ids 0 to 5; others are absent."""
        from afo.embedding.saved_tables import Rows

        keys = np.arange(6)
        return {name: Rows(keys, self._random.normal(size=(6, dim)).astype(np.float32)) for name, dim in dims.items()}

    dense_rows = 0


@pytest.mark.parametrize("storage", ["dense", "hash_table"])
@pytest.mark.parametrize("which", ["both", "deep", "wide"])
def test_what_is_loaded_replaces_all_that_was_there(
    tmp_path: Path, schema_file: Path, which: Literal["both", "deep", "wide"], storage: Literal["dense", "hash_table"]
) -> None:
    import tensorflow as tf

    from afo.train.setup import JobParts

    job = Job(
        name="local",
        roles={"ps": RoleSpec(), "worker": RoleSpec()},
        data=Data(schema="schema.yaml", train=("x",), sample_id="sample_id"),
        model=Model(
            parts=which, hidden_units=(4,), embedding=Embedding(dim=2, storage=storage),
            wide=Wide(crosses=(("city", "age"),)),
        ),
    )  # fmt: skip
    parts = JobParts(job, str(schema_file))
    Values.dense_rows = parts.model.parameters(1, 1).dense.rows
    records = [
        encode({"user": [n], "city": ["Ulm"], "liked": [n, 1], "age": [20.0 + n], "label": [0], "sample_id": [n]})
        for n in range(8)
    ]
    features = parts.parser(tf.constant(records)).features
    model, other = parts.model.local(Values(1)), parts.model.local(Values(2))  # type: ignore[arg-type]
    wanted = other.probabilities(features).numpy()
    assert np.abs(model.probabilities(features).numpy() - wanted).max() > 0.01
    model.load(Values(2))  # type: ignore[arg-type]
    assert_array_equal(model.probabilities(features).numpy(), wanted)
