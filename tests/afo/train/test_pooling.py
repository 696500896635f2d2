"""Pooled on the servers or on the workers, in float32 or bfloat16 on the wire: what a job file or a layer says is done,
and the same is learned."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import pytest

from afo.checkpoint.manifest import read_manifest
from afo.data.io.tfrecord import RecordWriter
from afo.errors import ModelError, SpecError
from afo.formats.units import Duration
from afo.job import Data, Embedding, Eviction, FeatureTables, Filter, Job, Model, Optimizer, RoleSpec, Wide
from afo.models.feature_layout import layout_of
from afo.models.server_pooling import pays, pooled_on_servers
from list_records import LENGTH, SCHEMA, records
from training_job import JobRun

pytestmark = pytest.mark.tensorflow

STEPS, BATCH = 8, 32
#: `seen` and `liked` are as long as `auto` wants of one server.
LISTS = ("words", "seen", "liked")


def job_of(embedding: Embedding, optimizer: dict[str, Any] | None = None, **model: Any) -> Job:
    return Job(
        name="lists",
        roles={"ps": RoleSpec(instances=2), "worker": RoleSpec()},
        data=Data(train=("part-*",), label="label", batch_size=BATCH),
        model=Model(hidden_units=(8,), embedding=embedding, wide=Wide(crosses=(("user", "city"),)), **model),
        optimizer=msgspec.convert(optimizer or {}, Optimizer),
    )


def batches() -> list[list[bytes]]:
    rows = records(STEPS * BATCH)
    return [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]


def trained(job: Job, servers: int = 2) -> tuple[list[float], Any]:
    """The losses of the steps, and the trainer."""
    from afo.trainable.hashed_wide_deep import HashedWideDeepModel
    from in_process_trainer import InProcessTrainer

    trainer = InProcessTrainer(HashedWideDeepModel(SCHEMA, job), SCHEMA, job, servers)
    return trainer.losses(batches()), trainer


SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as it is": ({}, {}),
    "adam, clipped": ({}, {"deep": {"adam": {}}, "embedding": {"adam": {"learning_rate": 0.05}, "clip_norm": 0.5}}),
    "ftrl with l2": ({}, {"embedding": {"ftrl": {"learning_rate": 0.2, "l2": 0.1}}}),
    "a filter": ({"filter": Filter(min_count=3, default_value=0.25)}, {}),
    "a bloom filter of one feature": (
        {"features": {"seen": FeatureTables(filter=Filter(min_count=2, max_element_size=5000))}}, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "parts"),
    [*((case, "both") for case in SETTINGS), ("as it is", "wide"),
     pytest.param("as it is", "deep", marks=pytest.mark.slow)],
)  # fmt: skip
def test_the_servers_sums_teach_what_the_rows_teach(case: str, parts: Any) -> None:
    settings, optimizer = SETTINGS[case]
    near, _ = trained(job_of(Embedding(dim=4, pooling="workers", **settings), optimizer, parts=parts))
    far, trainer = trained(job_of(Embedding(dim=4, pooling="servers", **settings), optimizer, parts=parts))
    kinds = [operation.type for operation in trainer.operations(batches()[0])]
    exchanges = {"both": 2, "deep": 1, "wide": 1}[parts] * 2
    assert (kinds.count("AfoPoolRows"), kinds.count("AfoApplyPooled")) == (exchanges, exchanges)
    np.testing.assert_allclose(far, near, atol=2e-5)
    assert near[-1] < near[0]


def test_without_any_other_feature_there_are_sums_alone() -> None:
    """No row comes to the worker, and no cross is there."""
    from afo.trainable.hashed_wide_deep import HashedWideDeepModel
    from in_process_trainer import InProcessTrainer

    schema = msgspec.structs.replace(SCHEMA, features=(SCHEMA["words"], SCHEMA["worth"], SCHEMA["seen"]))
    found = []
    for pooling in ("workers", "servers"):
        job = job_of(Embedding(dim=4, pooling=pooling))  # type: ignore[arg-type]
        job = msgspec.structs.replace(job, model=msgspec.structs.replace(job.model, wide=Wide()))
        trainer = InProcessTrainer(HashedWideDeepModel(schema, job), schema, job, 2)
        found.append(trainer.losses(batches()))
    assert "AfoLookupRows" not in {each.type for each in trainer.operations(batches()[0])}
    np.testing.assert_allclose(*found, atol=2e-5)


@pytest.mark.parametrize("pooling", ["workers", "servers"])
def test_bfloat16_on_the_wire_is_half_of_the_bytes_and_teaches_nearly_the_same(pooling: Any) -> None:
    found = {}
    for wire in ("float32", "bfloat16"):
        found[wire], trainer = trained(job_of(Embedding(dim=4, pooling=pooling, wire=wire), parts="deep"))  # type: ignore[arg-type]
        assert {each.wire for each in trainer.asked} == {wire}
    assert found["bfloat16"] != found["float32"]
    np.testing.assert_allclose(found["bfloat16"], found["float32"], atol=2e-3)


def test_linear_weights_are_float32_on_the_wire() -> None:
    _, trainer = trained(job_of(Embedding(dim=4, pooling="servers", wire="bfloat16")))
    wires = {(name.split("/")[0], each.is_pooled): each.wire for each in trainer.asked for name in each.tables}
    assert wires == {
        ("deep", True): "bfloat16", ("deep", False): "bfloat16", ("wide", True): "float32", ("wide", False): "float32",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "servers", "expected"),
    [
        (Embedding(), 2, LISTS),
        (Embedding(), 4, ()),
        (Embedding(pooling="servers"), 4, LISTS),
        (Embedding(pooling="workers"), 1, ()),
        (Embedding(features={"seen": FeatureTables(pooling="workers")}), 2, ("words", "liked")),
        (Embedding(pooling="workers", features={"seen": FeatureTables(pooling="servers")}), 4, ("seen",)),
        (Embedding(hash_buckets=100), 2, ()),
        (Embedding(storage="dense"), 1, ()),
    ],
)
def test_which_features_are_pooled_on_the_servers(settings: Embedding, servers: int, expected: tuple[str, ...]) -> None:
    job = job_of(settings)
    layout = layout_of(SCHEMA, job.model)
    assert {layout.sparse[place].feature for place in pooled_on_servers(layout, job, servers)} == set(expected)


def test_pooling_pays_where_sums_are_far_fewer_than_rows() -> None:
    assert pays(LENGTH, 0, 3, 64)
    assert not pays(LENGTH, 0, 4, 64)
    assert not pays(50, 500, 2, 64), "a batch names no more rows than there are"


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ({"sen": FeatureTables()}, r"features\.sen: `sen` is no categorical.*; did you mean `seen`\?"),
        ({"worth": FeatureTables()}, r"features\.worth: `worth` is no categorical"),
        ({"user": FeatureTables(pooling="servers")}, r"features\.user\.pooling: `user` has one value a sample"),
    ],
)
def test_features_that_have_no_tables_or_nothing_to_pool(features: dict[str, FeatureTables], words: str) -> None:
    model = Model(embedding=Embedding(features=features))
    with pytest.raises(SpecError, match=rf"\$\.model\.embedding\.{words}"):
        layout_of(SCHEMA, model)


OWN = """
import keras
from keras import layers, ops
from afo.embedding import Eviction, Filter
from afo.layers import Embedding


def build(how=None, pooling=None, wire=None, combiner="mean"):
    names = {"seen": "int64", "words": "string", "worth": "float32", "user": "int64"}
    inputs = {name: keras.Input((1 if name == "user" else 12,), dtype=kind, name=name) for name, kind in names.items()}
    options = {"combiner": combiner, "mask_zero": True, "pooling": pooling, "wire": wire}
    items = Embedding(None, 4, name="items", **options)
    words = Embedding(None, 3, name="texts", **options)(inputs["words"], inputs["worth"])
    x = [items(inputs["seen"]), words, items(inputs["user"])]
    x.append(ops.reshape(Embedding(None, 4, name="users", wire=wire)(inputs["user"]), [-1, 4]))
    if how == "learned weights":
        worth = layers.Dense(12, activation="softplus")(inputs["worth"])
        x.append(Embedding(None, 2, name="learned", combiner="sum", pooling=pooling)(inputs["words"], worth))
    if how == "own policies":
        policies = {"filter": Filter(min_count=5, default_value=0.5), "evict": Eviction(unused_steps=100)}
        x.append(Embedding(None, 2, name="rare", combiner="sum", **policies)(inputs["seen"]))
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid", name="out")(ops.concatenate(x, axis=1)))
"""


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., Any]:
    """Trains the model above with these parameters: its losses, and the trainer."""

    def train(embedding: Embedding | None = None, **params: Any) -> tuple[list[float], Any]:
        import keras

        from afo.trainable.entry_model import EntryModel
        from in_process_trainer import InProcessTrainer

        keras.backend.clear_session()
        path = tmp_path / "own.py"
        path.write_text(OWN)
        model = Model(entry=f"{path}:build", params=params, embedding=embedding or Embedding())
        job = msgspec.structs.replace(job_of(Embedding()), model=model)
        trainer = InProcessTrainer(EntryModel(SCHEMA, job), SCHEMA, job, 2)
        return trainer.losses(batches()), trainer

    return train


def test_sums_of_the_servers_are_what_is_served(own: Callable[..., Any], tmp_path: Path) -> None:
    """The next loss of a batch that was trained on, out of a checkpoint in one process."""
    import tensorflow as tf

    from afo.embedding.checkpoint import TableSaver
    from afo.models.parser import RecordParser
    from afo.tables.saved_tables import read_rows

    _, trainer = own(pooling="servers")
    batch = batches()[0]
    rows = read_rows(TableSaver(trainer.group).save(str(tmp_path / "tables")))
    reader: Any = mock.Mock(hash_tables=lambda dims: {name: rows[name] for name in dims})
    reader.whole.return_value = trainer.vector.numpy()
    parsed = RecordParser(SCHEMA, job_of(Embedding()).data)(tf.constant(batch))
    served = trainer.model.local(reader).probabilities(parsed.features).numpy()[:, 0]
    clicked = parsed.labels.numpy()[:, 0] > 0
    expected = -np.log(np.where(clicked, served, 1 - served)).mean()
    assert trainer.losses([batch]) == [pytest.approx(expected, abs=1e-6)]


def pooled_tables(trainer: Any) -> set[str]:
    return {name for each in trainer.asked if each.is_pooled for name in each.tables}


@pytest.mark.parametrize("combiner", ["mean", pytest.param("sum", marks=pytest.mark.slow), "sqrtn"])
def test_layers_with_a_combiner_learn_the_same_from_sums_and_rows(own: Callable[..., Any], combiner: str) -> None:
    near, one = own(pooling="workers", combiner=combiner)
    far, other = own(pooling="servers", combiner=combiner)
    np.testing.assert_allclose(far, near, atol=2e-5)
    kinds = [[operation.type for operation in each.operations(batches()[0])] for each in (one, other)]
    assert [each.count("AfoPoolRows") for each in kinds] == [0, 2], "one question to each server for all layers"
    assert [each.count("AfoLookupRows") for each in kinds] == [2, 2]


def test_a_layer_without_settings_goes_by_the_job(own: Callable[..., Any]) -> None:
    def pooled(**options: Any) -> set[str]:
        _, trainer = own(**options)
        return pooled_tables(trainer)

    # `items` is asked for one value, too; twelve are what `auto` wants of two servers.
    assert pooled() == {"embedding.texts"}
    assert pooled(embedding=Embedding(pooling="workers")) == set()
    assert pooled(embedding=Embedding(pooling="workers"), pooling="servers") == {"embedding.texts", "embedding.items"}


def test_the_wire_of_a_job_and_of_a_layer(own: Callable[..., Any]) -> None:
    exact, _ = own()
    near, trainer = own(embedding=Embedding(wire="bfloat16"))
    assert {each.wire for each in trainer.asked} == {"bfloat16"}
    np.testing.assert_allclose(near, exact, atol=2e-3)
    _, trainer = own(embedding=Embedding(wire="bfloat16"), wire="float32")
    assert {each.wire for each in trainer.asked} == {"float32"}


def test_weights_that_are_learned_are_pooled_where_they_have_a_gradient(own: Callable[..., Any]) -> None:
    _, trainer = own(how="learned weights")
    assert pooled_tables(trainer) == {"embedding.texts"}
    with pytest.raises(ModelError, match=r"`learned` cannot be pooled on the servers: its weights depend on more"):
        own(how="learned weights", pooling="servers")


def test_outside_of_a_job_a_combiner_is_the_same() -> None:
    import keras
    import tensorflow as tf

    from afo.layers import Embedding as Layer

    ones = keras.initializers.Constant(1.0)
    layer = Layer(5, 2, combiner="mean", mask_zero=True, embeddings_initializer=ones)
    layer.build()
    layer.embeddings.assign(np.arange(10, dtype=np.float32).reshape(5, 2))
    np.testing.assert_allclose(layer(tf.constant([[1, 0, 3], [0, 0, 0]])), [[4, 5], [0, 0]])
    np.testing.assert_allclose(layer(tf.constant([[1, 2]]), tf.constant([[1.0, 3.0]])), [[3.5, 4.5]])
    again = Layer.from_config(layer.get_config())
    assert (again.combiner, again.mask_zero) == ("mean", True)
    model = keras.Sequential([keras.Input((3,), dtype="int64"), layer])
    assert model.output_shape == (None, 2)
    with pytest.raises(ModelError, match=r"its ids must be \[batch, n\]"):
        layer(tf.zeros([2, 3, 4], tf.int64))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"combiner": "max"}, "`combiner` is 'max'; allowed are mean, sum, sqrtn"),
        ({"combiner": "sum", "pooling": "server"}, "`pooling` is 'server'; allowed are auto, servers, workers"),
        ({"wire": "float16"}, "`wire` is 'float16'; allowed are float32, bfloat16"),
        ({"pooling": "servers"}, "has `pooling` and no `combiner`"),
        ({"filter": {"least": 3}}, "filter: .*`least`; its fields are min_count, "),
        ({"filter": 3}, r"filter is 3; give it afo\.embedding\.Filter or a mapping"),
        ({"evict": {"unused_time": "14 days"}}, "evict: '14 days' is not a duration"),
        ({"evict": {"unused_steps": -1}}, "evict: Expected `int` >= 0"),
    ],
)
def test_options_of_a_layer_that_cannot_be(options: dict[str, Any], words: str) -> None:
    from afo.layers import Embedding as Layer

    with pytest.raises(ModelError, match=f"embedding `e`.*{words}"):
        Layer(5, 2, name="e", **options)


def test_tables_of_a_feature_have_its_own_filter_and_evictions() -> None:
    from afo.trainable.hashed_wide_deep import HashedWideDeepModel

    settings = Embedding(
        filter=Filter(min_count=2, default_value=0.5), evict=Eviction(capacity=9),
        features={
            "user": FeatureTables(filter=Filter(min_count=7, default_value=0.25)),
            "seen": FeatureTables(evict=Eviction(unused_time=Duration(60))),
        },
    )  # fmt: skip
    group = HashedWideDeepModel(SCHEMA, job_of(settings)).parameters(2, 1).embeddings
    assert group is not None
    found = {
        table.name: (table.filter.min_count, table.filter.default_value, table.eviction.capacity,
                     table.eviction.unused_time)
        for table in group.tables
    }  # fmt: skip
    assert found["deep/user"] == (7, 0.25, 9, None)
    assert found["wide/user"] == (7, 0.0, 9, None)
    assert found["deep/seen"] == (2, 0.5, 0, 60.0)
    assert found["deep/liked"] == (2, 0.5, 9, None)
    assert found["wide/user x city"] == (2, 0.0, 9, None)


def without_rows(dims: dict[str, int]) -> dict[str, Any]:
    """As a checkpoint's reader has tables."""
    from afo.tables.saved_tables import Rows

    return {name: Rows(np.zeros(0, np.int64), np.zeros((0, dim), np.float32)) for name, dim in dims.items()}


def test_absent_keys_are_evaluated_with_the_default_of_their_own_feature() -> None:
    from afo.trainable.hashed_wide_deep import HashedWideDeepModel

    settings = Embedding(dim=2, features={"user": FeatureTables(filter=Filter(min_count=2, default_value=0.25))})
    model = HashedWideDeepModel(SCHEMA, job_of(settings))
    parameters = model.parameters(2, 1)
    reader: Any = mock.Mock(hash_tables=without_rows)
    shapes = {"dense": (parameters.dense.rows,), "statistics": parameters.state[0].shape}
    reader.whole.side_effect = lambda name, dtype="float32": np.zeros(shapes[name], dtype)
    tables: dict[str, Any] = model.local(reader).tables  # type: ignore[attr-defined]
    for name, expected in {"deep/user": 0.25, "deep/seen": 0.0, "wide/user": 0.0}.items():
        assert set(tables[name].lookup(np.array([5])).numpy().flat) == {expected}


def test_a_layer_has_its_own_filter_and_evictions(own: Callable[..., Any], tmp_path: Path) -> None:
    from afo.layers import Embedding as Layer

    _, trainer = own(
        embedding=Embedding(filter=Filter(min_count=2), evict=Eviction(unused_time=Duration(60))), how="own policies"
    )
    found = {table.name: (table.filter.min_count, table.eviction) for table in trainer.group.tables}
    assert found["embedding.items"] == (2, Eviction(unused_time=Duration(60)))
    assert found["embedding.rare"] == (5, Eviction(unused_steps=100))
    layer = Layer(5, 2, filter=Filter(min_count=3), evict=Eviction(capacity=7))
    again = Layer.from_config(layer.get_config())
    assert (again.filter, again.evict) == (Filter(min_count=3), Eviction(capacity=7))
    assert Layer(5, 2, evict={"unused_time": "14d"}).evict == Eviction(unused_time=Duration(14 * 86400))


def test_the_layers_default_of_absent_keys_is_what_is_evaluated(own: Callable[..., Any]) -> None:
    _, trainer = own(how="own policies")
    reader: Any = mock.Mock(hash_tables=without_rows)
    parameters = trainer.model.parameters(2, 1)
    reader.whole.return_value = np.zeros(parameters.dense.rows, np.float32)
    tables = trainer.model.local(reader).tables
    assert {name: float(table.lookup(np.array([5]))[0, 0]) for name, table in tables.items()} == {
        "embedding.items": 0.0, "embedding.texts": 0.0, "embedding.users": 0.0, "embedding.rare": 0.5,
    }  # fmt: skip


@pytest.mark.slow
def test_a_job_with_every_switch_trains(tmp_path: Path, run_job: Callable[..., JobRun]) -> None:
    (tmp_path / "data").mkdir()
    for name, seed in (("part-0", 1), ("part-1", 2), ("eval-0", 3)):
        with RecordWriter(str(tmp_path / "data" / f"{name}.tfrecord")) as writer:
            for record in records(1500, seed):
                writer.write(record)
    (tmp_path / "schema.yaml").write_text(SCHEMA.to_yaml())
    settings = Embedding(
        dim=4, pooling="servers", wire="bfloat16",
        features={"seen": FeatureTables(filter=Filter(min_count=40)),
                  "liked": FeatureTables(evict=Eviction(capacity=20))},
    )  # fmt: skip
    job = job_of(settings)
    data = msgspec.structs.replace(
        job.data, train=(f"{tmp_path}/data/part-*",), eval=(f"{tmp_path}/data/eval-*",), epochs=2
    )
    roles = {"ps": RoleSpec(instances=2), "worker": RoleSpec(instances=2), "evaluator": RoleSpec()}
    run = run_job(msgspec.structs.replace(job, data=data, roles=roles), tmp_path / "schema.yaml")
    run.start_servers()
    run.finish(run.start("worker", 0), run.start("worker", 1), run.start("evaluator", 0))
    measured = run.master.evals[-1].metrics
    assert measured["auc"] > 0.6
    rows = read_manifest(run.master.checkpoints[-1].manifest).rows
    assert rows["deep/liked"] < 60 < rows["deep/words"]
    assert rows["deep/seen"] < 100, "few ids come so often"
    assert rows["wide/user"] == 50


def test_where_gradients_are_clipped_the_rows_themselves_come() -> None:
    from types import SimpleNamespace

    from afo.trainable.layer_exchange import ways_of
    from afo.trainable.lookups import Call, Named

    def way(pooling: str | None, *, is_regularized: bool = False) -> Any:
        layer = SimpleNamespace(
            name="texts", combiner="sum", pooling=pooling, wire=None, input_dim=10**6, is_regularized=is_regularized
        )
        call = Call(layer, SimpleNamespace(shape=(None, 100)))
        job = Job(name="own", roles={"ps": RoleSpec(), "worker": RoleSpec()}, data=Data(train=("part-*",)))
        ways = [ways_of([Named("texts", layer, hashed=True)], [call], job, 4, with_rows=each) for each in (False, True)]
        return [each[id(layer)].is_pooled for each in ways]

    assert way(None) == [True, False]
    assert way(None, is_regularized=True) == [False, False]
    with pytest.raises(ModelError, match="its `embeddings_regularizer` is of each row; give it `pooling='workers'`"):
        way("servers", is_regularized=True)
    with pytest.raises(ModelError, match="compiled with gradient clipping, which needs the gradient of each row"):
        way("servers")
