"""Combinations of keys: each row of the table refuses what breaks it, in one sentence that names the key."""

from functools import partial
from typing import Any

import pytest

from afo.errors import SpecError
from afo.job import (
    Checkpoint,
    Data,
    EarlyStop,
    Elastic,
    Embedding,
    Export,
    Filter,
    Job,
    Model,
    Optimizer,
    RoleSpec,
    RowOptimizer,
    Security,
    Train,
)
from afo.job.combinations import COMBINATIONS

_WORKER: dict[str, Any] = {"worker": RoleSpec()}
_ROLES: dict[str, Any] = {**_WORKER, "ps": RoleSpec()}
_OWN = Data(train=("a",), eval=("b",))
model_job = partial(Job, name="j", roles=_ROLES, data=_OWN)
program_job = partial(Job, name="j", roles=_WORKER, program="train.py")
evaluated = partial(model_job, roles={**_ROLES, "evaluator": RoleSpec(optional=True)})

#: What breaks each combination, in the order of the table.
BROKEN = {
    "": [
        partial(model_job, roles=_WORKER),
        partial(model_job, roles={**_ROLES, "chief": RoleSpec(instances=2)}),
        partial(program_job, roles={**_WORKER, "ps": RoleSpec(instances=0)}),
        partial(model_job, roles={**_ROLES, "ps": RoleSpec(instances=Elastic(min=1, max=2))}),
        partial(model_job, roles={**_ROLES, "ps": RoleSpec(min_success=0.5)}),
        partial(model_job, roles={**_ROLES, "ps": RoleSpec(optional=True)}),
        partial(evaluated, train=Train(early_stop=EarlyStop())),
        partial(program_job, model=Model(precision="bfloat16")),
        partial(program_job, engine="psplus"),
        partial(model_job, engine="psplus", model=Model(embedding=Embedding(storage="dense"))),
        partial(program_job, security=Security(tunnel=True)),
        partial(model_job, ends_with="chief"),
        partial(program_job, checkpoint=Checkpoint(on_ps_loss="partial")),
        partial(model_job, checkpoint=Checkpoint(on_ps_loss="partial")),
        partial(
            model_job, model=Model(embedding=Embedding(storage="dense")), optimizer=Optimizer(embedding=RowOptimizer())
        ),
        partial(model_job, data=Data()),
        partial(evaluated, data=Data(train=("a",))),
        partial(model_job, train=Train(early_stop=EarlyStop())),
        partial(model_job, export=Export(require={"auc": ">=0.7"})),
        partial(model_job, export=Export(checkpoint="best")),
    ],
    "data": [partial(Data, label=("a", "b"), class_weight={"1": 2.0})],
    "model": [
        partial(Model, entry="m.py:build", embedding=Embedding(dim=8)),
        partial(Model, entry="m.py:build", embedding=Embedding(features={"user": {}})),
    ],
    "model.embedding": [partial(Embedding, storage="dense", wire="bfloat16")],
    "model.embedding.filter": [
        partial(Filter, min_count=2, probability=0.5),
        partial(Filter, min_count=300, max_element_size=1000),
    ],
}


@pytest.mark.parametrize(
    ("section", "number"),
    [(section, number) for section, rows in COMBINATIONS.items() for number in range(len(rows))],
)
def test_what_breaks_a_combination_is_refused_by_it(section: str, number: int) -> None:
    combination = COMBINATIONS[section][number]
    with pytest.raises(SpecError) as refusal:
        BROKEN[section][number]()
    told, _, rest = combination.sentence.partition("{}")
    assert str(refusal.value).startswith(told)
    assert str(refusal.value).endswith(rest.rpartition("{}")[2])


def test_every_combination_has_what_breaks_it() -> None:
    assert {section: len(rows) for section, rows in COMBINATIONS.items()} == {
        section: len(broken) for section, broken in BROKEN.items()
    }
    model_job()
    program_job()
    evaluated()
