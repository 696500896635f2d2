"""Gradients of the pooling of rows, of the first and of the second order: those of a gradient penalty in a loss.

Pooled rows are P v: linear in the values v of the rows, where no `max_norm` shortens them, and P is linear in the
weights w of a sum. So with g for the gradient of what was pooled, and A for that of P' g,

    of P' g in g       is P A
    of P' g in w       is the gradient in w of <P A, g>
    of the gradient in w of <P v, g>, times z:  P(z) v in g, and P(z)' g in v
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from afo.errors import Unsupported
from afo.ops.library import load

#: As `Combiner` of afo/core/pooling.h; None leaves a row for each id.
COMBINERS = {None: 0, "sum": 1, "mean": 2, "sqrtn": 3}


class _Pooling(NamedTuple):
    """Inputs of an operation of pooling, behind its gradients."""

    values: list[Any]
    splits: list[Any]
    #: Places and lengths.
    ids: list[Any]
    bags: list[Any]
    weights: list[Any]
    attributes: dict[str, Any]

    def pooled(self, values: Sequence[Any], weights: Sequence[Any], outputs: int) -> list[Any]:
        ops = load()
        return list(ops.afo_pool(
            values, self.splits, *self.ids, self.bags, weights, num_outputs=outputs, **self.attributes
        ))  # fmt: skip

    def summed(self, gradients: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
        """The gradient of the values."""
        return self._differentiated(load().afo_pool_gradient, gradients, self.values, weights)

    def of_weights(self, gradients: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        if not self.weights:
            return []
        return self._differentiated(load().afo_pool_weight_gradient, gradients, values, self.weights)

    def _differentiated(
        self, operation: Callable[..., Any], gradients: Sequence[Any], values: Sequence[Any], weights: Sequence[Any]
    ) -> list[Any]:
        return list(operation(gradients, values, self.splits, *self.ids, self.bags, weights, **self.attributes))

    def require_linear(self, *, in_weights: bool) -> None:
        """Raises Unsupported where the formulas of the second order do not hold."""
        if any(self.attributes["max_norms"]):
            raise Unsupported("a gradient of a gradient through a lookup with `max_norm` is not there; leave that out")
        if not in_weights:
            return
        if any(combiner != COMBINERS["sum"] for combiner in self.attributes["combiners"]):
            raise Unsupported(
                "a gradient of a gradient in the weights of a lookup is there for the combiner `sum` alone; divide by "
                "the sum of the weights yourself"
            )
        if len(self.weights) < len(self.attributes["run_tables"]):
            raise Unsupported(
                "a gradient of a gradient in the weights of a lookup is there where all features of that lookup have "
                "weights; look the others up in another call"
            )

    def nothing(self) -> list[Any]:
        """No gradient, for splits, ids and bags."""
        return [None] * (len(self.splits) + len(self.ids) + len(self.bags))


def _pooling_of(operation: Any, gradients: int) -> tuple[list[Any], _Pooling]:
    """The first inputs, which are so many gradients, and the others."""
    servers, *others = (operation.get_attr(f"num_{kind}") for kind in ("servers", "bags", "weights"))
    ends = itertools.accumulate([gradients, servers, servers, 2, *others], initial=0)
    first, *parts = [list(operation.inputs[start:end]) for start, end in itertools.pairwise(ends)]
    names = ("bag_runs", "weight_runs", "run_tables", "dims", "combiners", "max_norms")
    values, splits, ids, bags, weights = parts
    attributes = {name: operation.get_attr(name) for name in names}
    return first, _Pooling(values, splits, ids, bags, weights, attributes)


def _filled(gradients: Sequence[Any], likes: Sequence[Any]) -> list[Any]:
    """Zeros for what nobody's loss depends on."""
    return [
        tf.zeros_like(like) if gradient is None else tf.convert_to_tensor(gradient)
        for gradient, like in zip(gradients, likes, strict=True)
    ]


@tf.RegisterGradient("AfoPool")  # type: ignore[untyped-decorator]  # TensorFlow is untyped
def _pool_gradient(operation: Any, *gradients: Any) -> list[Any]:
    """With regard to the servers' answers, and to the weights where there are any."""
    _, pooling = _pooling_of(operation, 0)
    given = _filled(gradients, operation.outputs)
    summed = pooling.summed(given, pooling.weights)
    return [*summed, *pooling.nothing(), *pooling.of_weights(given, pooling.values)]


@tf.RegisterGradient("AfoPoolGradient")  # type: ignore[untyped-decorator]
def _of_values_gradient(operation: Any, *gradients: Any) -> list[Any]:
    """With regard to the gradients that it was given, and to the weights; it does not depend on the values."""
    given, pooling = _pooling_of(operation, operation.get_attr("num_outputs"))
    pooling.require_linear(in_weights=False)
    upstream = _filled(gradients, operation.outputs)
    pooled = pooling.pooled(upstream, pooling.weights, len(given))
    of_values = [None] * len(pooling.values)
    return [*pooled, *of_values, *pooling.nothing(), *pooling.of_weights(given, upstream)]


@tf.RegisterGradient("AfoPoolWeightGradient")  # type: ignore[untyped-decorator]
def _of_weights_gradient(operation: Any, *gradients: Any) -> list[Any]:
    """With regard to the gradients that it was given, and to the values."""
    given, pooling = _pooling_of(operation, operation.get_attr("num_outputs"))
    pooling.require_linear(in_weights=True)
    upstream = _filled(gradients, operation.outputs)
    of_given = pooling.pooled(pooling.values, upstream, len(given))
    of_values = pooling.summed(given, upstream)
    return [*of_given, *of_values, *pooling.nothing(), *[None] * len(pooling.weights)]
