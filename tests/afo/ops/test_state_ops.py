"""State operations: dense weights as TensorFlow's rules have them, progress of one instant, and refusals."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from afo.job import Adagrad, Adam, AdamW, Ftrl, Momentum, OptimizerChoice, RMSprop, Sgd, UpdateRule  # noqa: E402
from afo.ops.library import load  # noqa: E402
from afo.optimizers import rule_of  # noqa: E402

pytestmark = pytest.mark.tensorflow

InvalidArgument = tf.errors.InvalidArgumentError
FailedPrecondition = tf.errors.FailedPreconditionError
RULES: tuple[UpdateRule, ...] = (
    Sgd(learning_rate=0.05), Adagrad(epsilon=1e-6), Adam(learning_rate=0.01), AdamW(learning_rate=0.01),
    Ftrl(l1=0.01, l2=0.001), Momentum(learning_rate=0.005), Momentum(learning_rate=0.005, nesterov=True),
    RMSprop(learning_rate=0.005),
)  # fmt: skip
SIZE, STEPS = 5000, 200
#: Roundings add up: after these steps TensorFlow is 1.1e-6 from weights in double precision, and the engine 0.8e-6.
MOST_DIFFERENCE = {"adamw": 2e-6, "ftrl": 2e-6}
FLOATS = [tf.float32]


@pytest.fixture(scope="module")
def ops() -> Any:
    return load()


def handle(ops: Any, name: str) -> Any:
    return ops.afo_embedding_tables(shared_name=f"test/state/{name}")


def create(ops: Any, tables: Any, rule: UpdateRule, size: int = SIZE, /, **changed: Any) -> None:
    options = msgspec.structs.asdict(rule)
    attributes = {
        "size": size, "rule": rule.key, "slots": rule.slots, "option_names": list(options),
        "options": [float(value) for value in options.values()], **changed,
    }  # fmt: skip
    ops.afo_create_dense(tables, **attributes)


def name_of(rule: UpdateRule) -> str:
    return f"{rule.key}{'-nesterov' if getattr(rule, 'nesterov', False) else ''}"


@pytest.mark.parametrize("rule", RULES, ids=name_of)
def test_dense_weights_go_where_the_rules_of_tensorflow_take_them(ops: Any, rule: UpdateRule) -> None:
    tables, random = handle(ops, name_of(rule)), np.random.default_rng(5)
    first = random.normal(size=SIZE).astype(np.float32)
    create(ops, tables, rule)
    ops.afo_reset_dense(tables, first)
    choice: dict[str, Any] = {rule.key: rule}
    theirs = rule_of(OptimizerChoice(**choice))
    variable = tf.Variable(first)
    slots = [tf.Variable(slot) for slot in theirs.initial(tf.constant(first))]
    handles = tuple(slot.handle for slot in slots)
    for step in range(STEPS):
        gradient, schedule = random.normal(size=SIZE).astype(np.float32), np.float32(1 / (1 + step % 7))
        theirs.apply_dense(variable.handle, handles, tf.constant(gradient), tf.constant(schedule))
        ops.afo_apply_dense(tables, gradient, schedule)
    wanted = {"weights": variable.numpy(), **{name: s.numpy() for name, s in zip(theirs.slots, slots, strict=True)}}
    weights, kept, powers = ops.afo_export_dense(tables)
    np.testing.assert_array_equal(ops.afo_read_dense(tables), weights)
    assert powers.numpy() == STEPS == wanted.pop("steps", np.array([STEPS])).max()
    if rule.key == "momentum":  # theirs is in units of the change, and ours of the gradient
        wanted["velocity"] = wanted["velocity"] / -rule.learning_rate
    found = dict(zip(wanted, [weights.numpy(), *kept.numpy()], strict=True))
    differences = {name: np.abs(found[name] - wanted[name]).max() / np.abs(wanted[name]).max() for name in wanted}
    print(name_of(rule), {name: f"{difference:.1e}" for name, difference in differences.items()})
    assert max(differences.values()) <= MOST_DIFFERENCE.get(rule.key, 1e-6)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 10000])
def test_dense_weights_are_exported_imported_moved_and_reset(ops: Any, size: int) -> None:
    here, there, random = handle(ops, f"from {size}"), handle(ops, f"to {size}"), np.random.default_rng(size)
    first, gradient, change = (random.normal(size=size).astype(np.float32) for _ in range(3))
    for tables in (here, there):
        create(ops, tables, Adam(), size)
        create(ops, tables, Adam(), size)
        np.testing.assert_array_equal(ops.afo_read_dense(tables), np.zeros(size))
    ops.afo_reset_dense(here, first)
    ops.afo_apply_dense(here, gradient, 0.5)
    ops.afo_move_dense(here, change)
    ops.afo_import_dense(there, *ops.afo_export_dense(here))
    ops.afo_apply_dense(here, gradient, 1.0)
    ops.afo_apply_dense(there, gradient, 1.0)
    exported = ops.afo_export_dense(there)
    assert exported.slots.shape == (2, size)
    assert exported.powers.numpy() == 2
    for one, other in zip(ops.afo_export_dense(here), exported, strict=True):
        np.testing.assert_array_equal(one, other)
    ops.afo_reset_dense(here, first)
    weights, slots, powers = ops.afo_export_dense(here)
    np.testing.assert_array_equal(weights, first)
    assert not np.any(slots)
    assert powers.numpy() == 0


def test_dense_weights_without_slots(ops: Any) -> None:
    tables = handle(ops, "no slots")
    create(ops, tables, Sgd(), 3)
    assert ops.afo_export_dense(tables).slots.shape == (0, 3)
    ops.afo_import_dense(tables, [1.0, 2, 3], np.zeros((0, 3), np.float32), tf.constant(4, tf.int64))
    assert ops.afo_export_dense(tables).powers.numpy() == 4


def test_dense_weights_are_created_once_and_alike(ops: Any) -> None:
    tables = handle(ops, "once")
    create(ops, tables, Adam(), 3)
    for rule, size in ((Adam(), 4), (Adam(learning_rate=0.5), 3), (Sgd(), 3)):
        with pytest.raises(tf.errors.AlreadyExistsError, match="dense weights are there with another size or optim"):
            create(ops, tables, rule, size)


@pytest.mark.parametrize(
    "changed",
    [
        {"rule": "lion"}, {"slots": 1}, {"option_names": ["rate"], "options": [1.0]}, {"options": []},
        {"rule": "group_ftrl"}, {"rule": "adagrad_decay", "slots": 1}, {"size": 2**31 + 1},
        {"option_names": ["clip_norm"], "options": [1.0]},
    ],
)  # fmt: skip
def test_dense_weights_that_cannot_be(ops: Any, changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="an option of the dense weights is out of its range"):
        create(ops, handle(ops, "cannot be"), Adam(), **changed)


def test_dense_weights_that_are_not_there(ops: Any) -> None:
    tables = handle(ops, "without dense")
    with pytest.raises(tf.errors.NotFoundError):
        ops.afo_read_dense(tables)
    ops.afo_import_progress(tables, tf.constant(0, tf.int64), *no_positions(), arrays=[])
    for name, given in (
        ("read", []), ("apply", [[1.0], 1.0]), ("move", [[1.0]]), ("reset", [[1.0]]), ("export", []),
        ("import", [[1.0], [[1.0]], tf.constant(0, tf.int64)]),
    ):  # fmt: skip
        with pytest.raises(FailedPrecondition, match="there are no dense weights on this server"):
            getattr(ops, f"afo_{name}_dense")(tables, *given)


def test_dense_inputs_of_other_shapes(ops: Any) -> None:
    tables, three, powers = handle(ops, "shapes"), [1.0, 2, 3], tf.constant(0, tf.int64)
    create(ops, tables, Adagrad(), 3)
    calls: dict[str, Callable[[Any], Any]] = {
        "gradient": lambda given: ops.afo_apply_dense(tables, given, 1.0),
        "change": lambda given: ops.afo_move_dense(tables, given),
        "weights": lambda given: ops.afo_reset_dense(tables, given),
        "slots": lambda given: ops.afo_import_dense(tables, three, given, powers),
    }
    for wrong in ([1.0, 2], [[1.0, 2, 3]], 1.0, [1.0, 2, 3, 4], tf.zeros([0])):
        for name, call in calls.items():
            if not (name == "slots" and np.shape(wrong) == (1, 3)):
                with pytest.raises(InvalidArgument, match=f"{name} must have the shape"):
                    call(wrong)
    with pytest.raises(InvalidArgument, match="weights must have the shape"):
        ops.afo_import_dense(tables, [1.0], [three], powers)
    with pytest.raises(InvalidArgument, match=r"schedule must have the shape \[\] here, and has \[2\]"):
        ops.afo_apply_dense(tables, three, [1.0, 1.0])
    with pytest.raises(InvalidArgument, match="powers must have the shape"):
        ops.afo_import_dense(tables, three, [three], tf.constant([0], tf.int64))
    with pytest.raises(InvalidArgument, match="powers must not be negative"):
        ops.afo_import_dense(tables, three, [three], tf.constant(-1, tf.int64))
    np.testing.assert_array_equal(ops.afo_read_dense(tables), np.zeros(3))
    with pytest.raises(InvalidArgument, match="the schedule is nan"):
        ops.afo_apply_dense(tables, three, np.nan)
    np.testing.assert_array_equal(ops.afo_read_dense(tables), np.zeros(3))


def ints(*values: Any) -> Any:
    return tf.constant(values, tf.int64)


def no_positions() -> tuple[Any, Any]:
    return tf.zeros([0], tf.int64), tf.zeros([0, 3], tf.int64)


def test_progress_advances_and_moves_to_another_server(ops: Any) -> None:
    here, there = handle(ops, "progress"), handle(ops, "progress elsewhere")
    arrays = [tf.constant([[1.5], [2.5]]), tf.constant(7, tf.int64), tf.zeros([0, 2], tf.uint8)]
    types = [array.dtype for array in arrays]
    ops.afo_import_progress(here, tf.constant(41, tf.int64), *no_positions(), arrays=arrays)
    added = [tf.constant([[1.0], [-1.0]]), tf.constant(-9, tf.int64), tf.zeros([0, 2], tf.uint8)]
    assert ops.afo_advance(here, ints(5, 2), ints([1, 10, -1], [0, 3, 4]), added=added).numpy() == 42
    read = ops.afo_read_progress(here, ints(2, 3, 5, 2), T=types)
    assert read.step.numpy() == 42
    assert read.positions.numpy().tolist() == [[0, 3, 4], [-1, 0, 0], [1, 10, -1], [0, 3, 4]]
    assert [array.numpy().tolist() for array in read.arrays] == [[[2.5], [1.5]], -2, []]
    step, splits, positions, kept = ops.afo_export_progress(here, T=types)
    assert splits.numpy().tolist() == [2, 5]
    assert positions.numpy().tolist() == [[0, 3, 4], [1, 10, -1]]
    ops.afo_import_progress(there, step, splits, positions, arrays=kept)
    for one, other in zip(
        tf.nest.flatten(ops.afo_export_progress(there, T=types)), [step, splits, positions, *kept], strict=True
    ):
        np.testing.assert_array_equal(one, other)
    ops.afo_import_progress(there, tf.constant(0, tf.int64), *no_positions(), arrays=[])
    assert ops.afo_advance(there, *no_positions(), added=[]).numpy() == 1
    assert ops.afo_read_progress(there, ints(2, 5), T=[]).positions.numpy().tolist() == [[-1, 0, 0]] * 2


@pytest.mark.parametrize(
    ("splits", "positions", "words"),
    [
        (ints([1]), ints([0, 0, 0]), "splits must be a vector"),
        (ints(1), ints(0, 0, 0), r"positions must have the shape \[1,3\] here, and has \[3\]"),
        (ints(1), ints([0, 0]), r"positions must have the shape \[1,3\] here, and has \[1,2\]"),
        (ints(1, 2), ints([0, 0, 0]), r"positions must have the shape \[2,3\] here, and has \[1,3\]"),
        (ints(-1), ints([0, 0, 0]), "split -1 is not between 0 and 67108863"),
        (ints(2**31), ints([0, 0, 0]), "split 2147483648 is not between"),
        (ints(3), ints([0, -1, 0]), "the position of split 3 has a negative epoch or count"),
        (ints(3), ints([-1, 0, 0]), "the position of split 3 has a negative epoch or count"),
    ],
)
def test_positions_that_cannot_be(ops: Any, splits: Any, positions: Any, words: str) -> None:
    tables = handle(ops, "positions")
    ops.afo_import_progress(tables, tf.constant(3, tf.int64), *no_positions(), arrays=[])
    with pytest.raises(InvalidArgument, match=words):
        ops.afo_advance(tables, splits, positions, added=[])
    with pytest.raises(InvalidArgument, match=words):
        ops.afo_import_progress(tables, tf.constant(4, tf.int64), splits, positions, arrays=[])
    if words.startswith("split"):
        with pytest.raises(InvalidArgument, match=words):
            ops.afo_read_progress(tables, splits, T=[])
    step, begun, _, _ = ops.afo_export_progress(tables, T=[])
    assert step.numpy() == 3
    assert begun.shape == [0]


def test_arrays_of_another_number_type_or_shape(ops: Any) -> None:
    tables, three = handle(ops, "arrays"), tf.constant([1.0, 2, 3])
    ops.afo_import_progress(tables, tf.constant(3, tf.int64), *no_positions(), arrays=[three])
    for types in ([], [tf.float64], [tf.float32, tf.float32]):
        words = f"{len(types)} arrays of the model's state were asked for"
        with pytest.raises(FailedPrecondition, match=words):
            ops.afo_read_progress(tables, ints(1), T=types)
        with pytest.raises(FailedPrecondition, match=words):
            ops.afo_export_progress(tables, T=types)
    for added, words in (
        ([], "something is added to 0 arrays of the model's state, where there are 1"),
        ([three, three], "something is added to 2 arrays"),
        ([three[:2]], "array 0 of the model's state is of another type or shape"),
        ([three[:, tf.newaxis]], "array 0 of the model's state is of another type or shape"),
        ([tf.cast(three, tf.int32)], "array 0 of the model's state is of another type or shape"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            ops.afo_advance(tables, ints(1), ints([0, 1, 2]), added=added)
    for wrong in (tf.constant([True]), tf.constant([1.0], tf.bfloat16), tf.constant(["text"])):
        with pytest.raises((InvalidArgument, TypeError)):
            ops.afo_import_progress(tables, tf.constant(0, tf.int64), *no_positions(), arrays=[wrong])
    read = ops.afo_read_progress(tables, ints(1), T=FLOATS)
    assert read.step.numpy() == 3
    assert read.positions.numpy().tolist() == [[-1, 0, 0]]
    np.testing.assert_array_equal(read.arrays[0], three)


def test_steps_that_cannot_be(ops: Any) -> None:
    tables = handle(ops, "steps")
    with pytest.raises(InvalidArgument, match="step must have the shape"):
        ops.afo_import_progress(tables, ints(1), *no_positions(), arrays=[])
    with pytest.raises(InvalidArgument, match="step -1 is out of its range"):
        ops.afo_import_progress(tables, tf.constant(-1, tf.int64), *no_positions(), arrays=[])
    with pytest.raises(tf.errors.NotFoundError):
        ops.afo_advance(handle(ops, "none"), *no_positions(), added=[])


def test_a_graph_knows_the_shapes(ops: Any) -> None:
    def shapes() -> None:
        tables = handle(ops, "graph")
        assert ops.afo_read_dense(tables).shape.rank == 1
        assert [shape.shape.rank for shape in ops.afo_export_dense(tables)] == [1, 2, 0]
        read = ops.afo_read_progress(tables, tf.zeros([4], tf.int64), T=FLOATS)
        assert read.step.shape == []
        assert read.positions.shape == [4, 3]
        assert read.arrays[0].shape.rank is None
        exported = ops.afo_export_progress(tables, T=[])
        assert exported.positions.shape.as_list() == [None, 3]
        assert exported.splits.shape.as_list() == [None]
        assert ops.afo_advance(tables, *no_positions(), added=[]).shape == []

    tf.function(shapes).get_concrete_function()
