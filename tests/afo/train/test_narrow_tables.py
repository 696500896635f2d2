"""`value_dtype: bfloat16` of a job and of a layer: which tables have it, and what is learned."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from afo.job import Data, Embedding, Job, Model, RoleSpec, ValueDtype
from list_records import SCHEMA, records

pytestmark = pytest.mark.tensorflow

STEPS, BATCH = 12, 32
OWN = """\
import keras
from keras import layers, ops
from afo.layers import Embedding


def build():
    user = keras.Input((1,), dtype="int64", name="user")
    x = [Embedding(None, 4, name="as_the_job")(user), Embedding(None, 4, name="own", value_dtype="float32")(user)]
    out = layers.Dense(1, activation="sigmoid", name="out")(ops.concatenate(x, axis=2)[:, 0])
    return keras.Model({"user": user}, out)
"""


def job_of(value_dtype: ValueDtype, **model: Any) -> Job:
    return Job(
        name="narrow",
        roles={"ps": RoleSpec(instances=2), "worker": RoleSpec()},
        data=Data(train=("part-*",), label="label", batch_size=BATCH),
        model=Model(embedding=msgspec.structs.replace(Embedding(), value_dtype=value_dtype), **model),
    )


def test_embeddings_in_bfloat16_teach_nearly_the_same_and_linear_weights_are_float32() -> None:
    from afo.trainable.hashed_wide_deep import HashedWideDeepModel
    from in_process_trainer import InProcessTrainer

    rows, found = records(STEPS * BATCH), {}
    kinds: tuple[ValueDtype, ...] = ("float32", "bfloat16")
    for kind in kinds:
        job = job_of(kind, hidden_units=(8,))
        trainer = InProcessTrainer(HashedWideDeepModel(SCHEMA, job), SCHEMA, job, 2)
        found[kind] = trainer.losses([rows[start : start + BATCH] for start in range(0, len(rows), BATCH)])
        tables = {(table.name.split("/")[0], table.value_dtype) for table in trainer.group.tables}
        assert tables == {("deep", kind), ("wide", "float32")}
    assert found["bfloat16"] != found["float32"]
    np.testing.assert_allclose(found["bfloat16"], found["float32"], atol=5e-3)
    assert np.mean(found["bfloat16"][-4:]) < np.mean(found["bfloat16"][:4])


def test_a_layers_value_dtype_goes_before_the_jobs(tmp_path: Path) -> None:
    from afo.layers import Embedding as Layer
    from afo.trainable.entry_model import EntryModel

    (tmp_path / "own.py").write_text(OWN)
    model = EntryModel(SCHEMA, job_of("bfloat16", entry=f"{tmp_path / 'own.py'}:build"))
    tables: Any = model.parameters(1, 1).embeddings
    assert {table.name: table.value_dtype for table in tables.tables} == {
        "embedding.as_the_job": "bfloat16", "embedding.own": "float32",
    }  # fmt: skip
    assert Layer.from_config(Layer(5, 2, value_dtype="bfloat16").get_config()).value_dtype == "bfloat16"
