"""Any interleaving of lookups, updates and removals, on any number of servers, against a dictionary."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

tf = pytest.importorskip("tensorflow")

from afo import embedding  # noqa: E402
from afo.job import Momentum  # noqa: E402

pytestmark = pytest.mark.tensorflow

_numbers = itertools.count()
#: Few, so that they meet again; the special ones of 64 bits are among them.
KEYS = st.lists(st.sampled_from([0, 1, -1, -2, 2**63 - 1, -(2**63), *range(100, 140)]), min_size=1, max_size=30)


class Tables(RuleBasedStateMachine):
    """Momentum with whole numbers: all sums are exact, and a row that comes again must have lost its velocity."""

    @initialize(servers=st.sampled_from([1, 2, 5]), dim=st.sampled_from([1, 3, 16]))
    def begin(self, servers: int, dim: int) -> None:
        group = embedding.TableGroup(["/device:CPU:0"] * servers, name=f"dictionary/{next(_numbers)}")
        rule = Momentum(learning_rate=1.0, momentum=0.5)
        self.dim = dim
        self.variable = embedding.get_embedding_variable("v", dim, initializer=3.0, optimizer=rule, group=group)
        self.rows: dict[int, tuple[Any, Any]] = {}

    def first(self) -> tuple[Any, Any]:
        return np.full(self.dim, 3.0), np.zeros(self.dim)

    @rule(keys=KEYS)
    def read(self, keys: list[int]) -> None:
        found = embedding.embedding_lookup(self.variable, np.array(keys, np.int64))
        expected = [self.rows.get(key, self.first())[0] for key in keys]
        np.testing.assert_array_equal(found, np.stack(expected).astype(np.float32))

    @rule(keys=KEYS, factor=st.integers(-3, 3))
    def update(self, keys: list[int], factor: int) -> None:
        with embedding.EmbeddingTape() as tape:
            rows = embedding.embedding_lookup(self.variable, np.array(keys, np.int64))
            loss = tf.reduce_sum(rows) * float(factor)
        tape.gradient(loss)
        tape.apply()
        for key in set(keys):
            weights, velocity = self.rows.get(key, self.first())
            velocity = 0.5 * velocity + factor * keys.count(key)
            self.rows[key] = weights - velocity, velocity

    @rule(keys=KEYS)
    def look_up_without_updating(self, keys: list[int]) -> None:
        with embedding.EmbeddingTape():
            embedding.embedding_lookup(self.variable, np.array(keys, np.int64))
        for key in keys:
            self.rows.setdefault(key, self.first())

    @rule(keys=KEYS)
    def remove(self, keys: list[int]) -> None:
        there = {key for key in keys if self.rows.pop(key, None) is not None}
        assert self.variable.remove(np.array(keys, np.int64)) == len(there)

    @invariant()
    def as_many_rows(self) -> None:
        if hasattr(self, "variable"):
            assert self.variable.total_count() == len(self.rows)


TestTables = Tables.TestCase
TestTables.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
