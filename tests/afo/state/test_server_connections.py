"""What is said of an error by which a server is lost."""

import pytest

tf = pytest.importorskip("tensorflow")

from afo.state.server_connections import reason_of  # noqa: E402

pytestmark = pytest.mark.tensorflow


def test_an_error_of_a_traced_step_is_one_line_without_where_it_was_traced() -> None:
    with pytest.raises(tf.errors.OpError) as traced:
        tf.function(lambda x: tf.debugging.check_numerics(x, "server h:1: gone"), autograph=False)(
            tf.constant(float("inf"))
        )
    assert "[[{{node" in str(traced.value)
    assert reason_of(traced.value).startswith("server h:1: gone")
    with pytest.raises(tf.errors.OpError) as eager:
        tf.debugging.check_numerics(tf.constant(float("inf")), "server h:1: gone")
    assert reason_of(eager.value) == "server h:1: gone : Tensor had Inf values"
    lines = "Graph execution error:", "", "Detected at node A defined at (most recent call last):", '  File "a.py"', ""
    assert (
        reason_of(ValueError("\n".join((*lines, "h:1: gone", "\t [[{{node A}}]] [Op:__inference_step_8]"))))
        == "h:1: gone"
    )
    assert reason_of(ValueError("two\nlines")) == "two"
