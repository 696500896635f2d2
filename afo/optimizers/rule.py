"""The protocol of an update rule."""

from typing import Any, Protocol

from afo.job import UpdateRule


class Rule(Protocol):
    """How a gradient changes a variable and its slots (the optimizer's own state, mostly of the variable's
    shape).

    The operations must be built under the device that holds the variable. `variable` and `slots` are resource handles,
    `slots` in the order of the property of that name. Rows of a sparse update are unique.
    """

    @property
    def options(self) -> UpdateRule:
        """What it is made of."""

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the slots."""

    @property
    def row_slots(self) -> tuple[str, ...]:
        """Those of them that hold one value a row, whatever the width."""

    def initial(self, weights: Any) -> tuple[Any, ...]:
        """First value of every slot for the variable's first value `weights`."""

    def apply_dense(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rate: Any = 1.0) -> Any:
        """Update the whole variable; `gradient` has its shape. `rate` multiplies the learning rate: 1.0 or a scalar."""

    def apply_sparse(self, variable: Any, slots: tuple[Any, ...], gradient: Any, rows: Any, rate: Any = 1.0) -> Any:
        """Update `rows` [n] int64, all different, with `gradient` [n, width], as `apply_dense`; no other is touched."""
