"""A model that goes from one checkpoint to the next."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from afo.data.example import encode
from afo.job import Data, Embedding, Job, Model, RoleSpec, Wide
from fake_checkpoint_reader import FakeCheckpointReader

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(("storage", "merged"), [("dense", False), ("hash_table", False), ("hash_table", True)])
@pytest.mark.parametrize("which", ["both", "deep", "wide"])
def test_what_is_loaded_replaces_all_that_was_there(
    tmp_path: Path, schema_file: Path, which: Literal["both", "deep", "wide"], storage: Literal["dense", "hash_table"],
    merged: bool,
) -> None:  # fmt: skip
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
    dense = parts.model.parameters(1, 1).dense.rows
    records = [
        encode({"user": [n], "city": ["Ulm"], "liked": [n, 1], "age": [20.0 + n], "label": [0], "sample_id": [n]})
        for n in range(8)
    ]
    features = parts.parser(tf.constant(records)).features
    first, second, again = (FakeCheckpointReader(seed, dense) for seed in (1, 2, 2))
    first.merged_in = again.merged_in = tmp_path if merged else None
    model, other = parts.model.local(first), parts.model.local(second)  # type: ignore[arg-type]
    wanted = other.probabilities(features).numpy()
    assert np.abs(model.probabilities(features).numpy() - wanted).max() > 0.01
    model.load(again)  # type: ignore[arg-type]
    assert_array_equal(model.probabilities(features).numpy(), wanted)
