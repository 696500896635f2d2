"""Lookups against TensorFlow's own on a dense variable: values, gradients, shapes, and how many questions they ask."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from afo import embedding  # noqa: E402
from afo.errors import ModelError, SpecError, Unsupported  # noqa: E402
from afo.job import Adagrad, Adam, Sgd, UpdateRule  # noqa: E402

pytestmark = pytest.mark.tensorflow

KEYS = 40
WEIGHTS = np.random.default_rng(5).uniform(0.2, 2, 9).astype(np.float32)
IDS = np.array([3, 7, 3, 0, 39, 39, 39, 12, 5], np.int64)
BAGS = np.array([0, 0, 0, 1, 1, 1, 1, 4, 4], np.int64)  # samples 2 and 3 have none


def sparse(values: Any) -> Any:
    places = [0, 1, 2, 0, 1, 2, 3, 0, 1]
    return tf.SparseTensor(np.stack([BAGS, places], 1), values, [5, 4])


def dense_of(variable: Any) -> Any:
    """What the rows of the keys 0 to 39 are, as TensorFlow's variable."""
    return tf.Variable(embedding.embedding_lookup(variable, np.arange(KEYS)))


@pytest.mark.parametrize("servers", [1, 2, 5])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("max_norm", [None, 0.3])
def test_pooled_rows_and_all_gradients_are_tensorflows(
    new_group: Any, servers: int, combiner: str, weighted: bool, max_norm: float | None
) -> None:
    rate = 0.5
    variable = embedding.get_embedding_variable(
        "v", 3, optimizer=Sgd(learning_rate=rate), seed=2, group=new_group(servers)
    )
    dense, weights = dense_of(variable), tf.Variable(WEIGHTS)
    scale = tf.constant(np.random.default_rng(1).normal(size=(5, 3)), tf.float32)
    with tf.GradientTape() as plain:
        given = sparse(tf.identity(weights)) if weighted else None
        expected = tf.nn.embedding_lookup_sparse(dense, sparse(IDS), given, combiner=combiner, max_norm=max_norm)
        loss = tf.reduce_sum(scale * expected)
    of_rows, of_weights = plain.gradient(loss, [dense, weights])
    with embedding.EmbeddingTape() as tape:
        given = sparse(tf.identity(weights)) if weighted else None
        found = embedding.embedding_lookup_sparse(variable, sparse(IDS), given, combiner=combiner, max_norm=max_norm)
        loss = tf.reduce_sum(scale * found)
    [own_of_weights] = tape.gradient(loss, [weights])
    tape.apply()
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)
    moved = tf.IndexedSlices(of_rows.values, of_rows.indices, of_rows.dense_shape)
    np.testing.assert_allclose(dense_of(variable), dense - rate * tf.convert_to_tensor(moved), rtol=2e-5, atol=2e-6)
    if weighted:
        np.testing.assert_allclose(own_of_weights, of_weights, rtol=2e-4, atol=2e-6)
    assert variable.total_count() == len(set(IDS.tolist()))


@pytest.mark.parametrize("servers", [1, 2, 5])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize(("weighted", "max_norm"), [(False, None), (True, None), (True, 0.3)])
@pytest.mark.parametrize("wire", [tf.float32, tf.bfloat16])
def test_pooling_on_the_servers_is_pooling_on_the_worker(
    new_group: Any, servers: int, combiner: str, weighted: bool, max_norm: float | None, wire: Any
) -> None:
    scale = tf.constant(np.random.default_rng(1).normal(size=(5, 3)), tf.float32)
    found = []
    for pools in (False, True):
        variable = embedding.get_embedding_variable(
            "v", 3, optimizer=Adagrad(learning_rate=0.1), seed=2, group=new_group(servers)
        )
        weights = sparse(WEIGHTS) if weighted else None
        with embedding.EmbeddingTape() as tape:
            if pools:
                pooled = embedding.embedding_lookup_sparse_with_distributed_aggregation(
                    variable, sparse(IDS), weights, combiner, max_norm, wire=wire
                )
            else:
                pooled = embedding.embedding_lookup_sparse(variable, sparse(IDS), weights, combiner, max_norm)
            loss = tf.reduce_sum(scale * pooled)
        tape.gradient(loss)
        tape.apply(step=1)
        assert variable.total_count() == len(set(IDS.tolist()))
        found.append((pooled.numpy(), dense_of(variable).numpy()))
    tolerance = 2e-6 if wire == tf.float32 else 0.02  # bfloat16 has 8 bits
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=10 * tolerance, atol=tolerance)


def test_bags_with_more_different_keys_than_sixteen_bits_count(new_group: Any) -> None:
    variable = embedding.get_embedding_variable("v", 1, initializer=1.0, group=new_group(1))
    ids = tf.RaggedTensor.from_row_splits(tf.range(70_000, dtype=tf.int64), [0, 69_000, 70_000])
    found = embedding.embedding_lookup_sparse_with_distributed_aggregation(variable, ids, combiner="sum")
    np.testing.assert_array_equal(found, [[69_000], [1_000]])


def test_sparse_ragged_and_dense_ids_say_the_same(new_group: Any) -> None:
    variable = embedding.get_embedding_variable("v", 4, group=new_group(2))
    dense = np.array([[1, 2], [2, -9]])
    ragged = tf.RaggedTensor.from_tensor(tf.constant(dense))
    as_sparse = tf.sparse.from_dense(dense)
    found = [embedding.embedding_lookup_sparse(variable, ids, combiner="sum") for ids in (dense, ragged, as_sparse)]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    rows = embedding.embedding_lookup(variable, dense)
    assert rows.shape == (2, 2, 4)
    np.testing.assert_allclose(tf.reduce_sum(rows, 1), found[0], rtol=1e-6)
    np.testing.assert_array_equal(embedding.embedding_lookup(variable, ragged).to_tensor(), rows)


def test_strings_are_their_fingerprint(new_group: Any) -> None:
    variable = embedding.get_embedding_variable("v", 4, group=new_group(2))
    words = tf.constant([["ein", "Wort"], ["Wort", ""]])
    by_word = embedding.embedding_lookup(variable, words)
    # FarmHash fingerprint of `Wort`, by tf.fingerprint: the bytes of a little-endian int64.
    key = int(np.frombuffer(tf.fingerprint(tf.constant(["Wort"])).numpy().tobytes(), "<i8")[0])
    np.testing.assert_array_equal(by_word[0, 1], embedding.embedding_lookup(variable, [key])[0])
    np.testing.assert_array_equal(by_word[0, 1], by_word[1, 0])
    assert not np.array_equal(by_word[0, 0], by_word[0, 1])


def test_only_a_training_lookup_creates_rows(new_group: Any) -> None:
    variable = embedding.get_embedding_variable("v", 4, group=new_group(3))
    before = embedding.embedding_lookup(variable, [1, 2, 3])
    assert variable.total_count() == 0
    with embedding.EmbeddingTape():
        during = embedding.embedding_lookup(variable, [3, 2, 1, 1])
    assert variable.total_count() == 3
    np.testing.assert_array_equal(before, during.numpy()[[2, 1, 0]])
    assert variable.remove([1, 1, 99]) == 1
    assert variable.total_count() == 2
    assert variable.memory_bytes() > 0


def test_a_group_asks_each_server_once_whatever_the_number_of_features(new_group: Any) -> None:
    group = new_group(3)
    variables = [embedding.get_embedding_variable(f"v{i}", 2 + i % 3, group=group) for i in range(20)]
    features = [variables[i % 20] for i in range(50)]

    @tf.function
    def step(ids: Any) -> Any:
        with embedding.EmbeddingTape() as tape:
            found = embedding.group_embedding_lookup_sparse(features, [ids] * 50, ["mean"] * 50)
            loss = tf.add_n([tf.reduce_sum(each) for each in found])
        tape.gradient(loss)
        tape.apply()
        return loss

    graph = step.get_concrete_function(tf.TensorSpec([None, None], tf.int64)).graph
    kinds = [operation.type for operation in graph.get_operations()]
    assert kinds.count("AfoLookupRows") == kinds.count("AfoApplyRows") == 3
    assert kinds.count("AfoUnique") == kinds.count("AfoPool") == kinds.count("AfoPoolGradient") == 1
    assert np.isfinite(step(tf.constant([[1, 2], [3, 1]], tf.int64)))
    assert variables[0].total_count() == 3


@pytest.mark.parametrize("concat", [False, True])
def test_a_group_is_pooled_on_the_servers_by_one_question_to_each(new_group: Any, concat: bool) -> None:
    bags = tf.ragged.constant([[7, 7, 1], [9], []], dtype=tf.int64)
    ids, combiners = [bags, tf.constant([7, 8, 9], tf.int64), bags], ["mean", None, "sqrtn"]
    seen, left = [], []
    for aggregated in (False, True):
        group = new_group(3)
        tables = [
            embedding.get_embedding_variable(f"v{width}", width, optimizer=Sgd(learning_rate=1.0), group=group)
            for width in (2, 5)
        ]
        asked = [tables[0], tables[1], tables[1]]

        @tf.function
        def step(asked: Any = asked, aggregated: bool = aggregated) -> Any:
            with embedding.EmbeddingTape() as tape:
                found = embedding.group_embedding_lookup_sparse(
                    asked, ids, combiners, concat=concat, distributed_aggregation=aggregated
                )
                joined = found if concat else tf.concat(found, axis=1)
                loss = tf.reduce_sum(joined * tf.range(12, dtype=tf.float32))
            tape.gradient(loss)
            with tf.control_dependencies(tape.apply()):
                return tf.identity(joined)

        graph = step.get_concrete_function().graph
        kinds = [operation.type for operation in graph.get_operations()]
        assert kinds.count("AfoPoolRows") == kinds.count("AfoApplyPooled") == (3 if aggregated else 0)
        seen.append(step())
        left.append([embedding.embedding_lookup(table, [1, 7, 8, 9]).numpy() for table in tables])
    np.testing.assert_allclose(seen[0], seen[1], rtol=1e-6)
    for before, after in zip(*left, strict=True):
        np.testing.assert_allclose(before, after, rtol=1e-5, atol=1e-6)


def test_shared_tables_sum_the_gradients_of_all_their_features(new_group: Any) -> None:
    variable = embedding.get_embedding_variable(
        "item", 2, initializer=0.0, optimizer=Sgd(learning_rate=1.0), group=new_group(2)
    )
    with embedding.EmbeddingTape() as tape:
        one, history = embedding.group_embedding_lookup_sparse(
            [variable, variable], [tf.constant([7, 8]), tf.ragged.constant([[7, 7], [9]])], [None, "mean"]
        )
        loss = tf.reduce_sum(one) + 10 * tf.reduce_sum(history)
    tape.gradient(loss)
    tape.apply()
    rows = embedding.embedding_lookup(variable, [7, 8, 9])
    np.testing.assert_array_equal(rows[:, 0], [-11, -1, -10])


def test_a_lookup_without_ids(new_group: Any) -> None:
    variable = embedding.get_embedding_variable("v", 4, group=new_group(2))
    with embedding.EmbeddingTape() as tape:
        found = embedding.embedding_lookup_sparse(variable, tf.ragged.constant([[], []], dtype=tf.int64))
        loss = tf.reduce_sum(found)
    tape.gradient(loss)
    tape.apply()
    np.testing.assert_array_equal(found, np.zeros((2, 4)))
    assert embedding.embedding_lookup(variable, np.zeros((0, 3), np.int64)).shape == (0, 3, 4)


@pytest.mark.parametrize("optimizer", [Adam(learning_rate=0.05), Adagrad(learning_rate=0.2)])
def test_the_same_on_any_number_of_servers(new_group: Any, optimizer: Any) -> None:
    """Every step names all keys, so that each server counts Adam's updates alike."""
    found = []
    for servers in (1, 2, 5):
        variable = embedding.get_embedding_variable("v", 5, optimizer=optimizer, seed=3, group=new_group(servers))
        for step in range(6):
            order = np.random.default_rng(step).permutation(np.arange(60, dtype=np.int64) * 977 - 11)
            with embedding.EmbeddingTape() as tape:
                rows = embedding.embedding_lookup(variable, order)
                loss = tf.reduce_sum(tf.square(rows - tf.cast(order[:, None] % 7, tf.float32)))
            tape.gradient(loss)
            tape.apply(step=step)
        found.append(embedding.embedding_lookup(variable, np.arange(60) * 977 - 11).numpy())
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_first_values_follow_the_initializer_and_the_seed(new_group: Any) -> None:
    group = new_group(2)
    ids = np.arange(4000)

    def rows(name: str, initializer: Any, seed: int = 0) -> Any:
        variable = embedding.get_embedding_variable(name, 8, initializer=initializer, seed=seed, group=group)
        return embedding.embedding_lookup(variable, ids).numpy()

    default = rows("default", None)
    assert abs(default.std() - 0.879626 / np.sqrt(8)) < 0.01  # a normal cut off at two deviations has 0.8796 of one
    assert np.abs(default).max() <= 2 / np.sqrt(8) + 1e-6
    uniform = rows("uniform", tf.keras.initializers.RandomUniform(-0.5, 1.5))
    assert abs(uniform.mean() - 0.5) < 0.02
    assert uniform.min() >= -0.5
    assert uniform.max() <= 1.5
    np.testing.assert_array_equal(rows("constant", 0.25), np.full((4000, 8), 0.25))
    np.testing.assert_array_equal(rows("again", None), default)
    assert np.abs(np.corrcoef(rows("other", None, seed=1).ravel(), default.ravel())[0, 1]) < 0.02


def test_what_cannot_be_is_said(new_group: Any) -> None:
    group = new_group(1)
    variable = embedding.get_embedding_variable("v", 4, group=group)
    with pytest.raises(SpecError, match="there is an embedding variable `v` already"):
        embedding.get_embedding_variable("v", 4, group=group)
    for dim in (0, 4097):
        with pytest.raises(SpecError, match=f"embedding_dim must be 1 to 4096, not {dim}"):
            embedding.get_embedding_variable("wide", dim, group=group)
    assert embedding.get_embedding_variable("widest", 4096, group=group).embedding_dim == 4096
    with pytest.raises(Unsupported, match="cannot begin with GlorotUniform"):
        embedding.get_embedding_variable("glorot", 4, initializer="glorot_uniform", group=group)
    with pytest.raises(SpecError, match=r"Adam: `beta_1` is 1.0; allowed: number >= 0 and <= 0.999999"):
        Adam(beta_1=1.0)
    with pytest.raises(ModelError, match="combiner is 'max'; allowed are None, sum, mean, sqrtn"):
        embedding.embedding_lookup_sparse(variable, [[1]], combiner="max")
    with pytest.raises(ModelError, match=r"ids to be pooled must be \[samples, n\]"):
        embedding.embedding_lookup_sparse(variable, [1, 2])
    with pytest.raises(ModelError, match="1 variables and 2 sp_ids"):
        embedding.group_embedding_lookup_sparse([variable], [[1], [2]], ["sum"])
    other = embedding.get_embedding_variable("v", 4, group=new_group(1))
    with pytest.raises(ModelError, match="of more than one group"):
        embedding.group_embedding_lookup_sparse([variable, other], [[[1]], [[2]]], ["sum", "sum"])


def test_the_package_itself_has_the_names_and_no_others() -> None:
    import afo

    for name in afo._EMBEDDING:
        assert getattr(afo, name) is getattr(embedding, name)
    rules = {each.__name__ for each in UpdateRule.__subclasses__()}
    page = (Path(__file__).parents[3] / "docs" / "embedding-variables.md").read_text()
    assert not {name for name in rules if f"`{name}`" not in page}
    assert set(embedding.__all__) - afo._EMBEDDING == {"TableGroup", "SlotMap", "Filter", "Eviction", *rules}
    with pytest.raises(AttributeError, match="no attribute 'embeding_lookup'"):
        afo.embeding_lookup  # noqa: B018  # misspelt on purpose
