"""What clipping does not hide."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from afo.optimizers.clipping import Clipping  # noqa: E402

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("clipping", [Clipping(value=1.0), Clipping(norm=1.0), Clipping(global_norm=1.0)])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_gradient_that_is_not_finite_stays_so(clipping: Clipping, wrong: float) -> None:
    gradient = clipping.clip_values(tf.constant([0.5, wrong, 3.0]))
    factor = clipping.factors({"weight": tf.reduce_sum(tf.square(gradient))}).get("weight", 1.0)
    assert not np.isfinite(gradient * factor)[1]
    assert clipping.clip_values(tf.constant([0.5])).numpy() == 0.5
