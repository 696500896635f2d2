"""What a user's own model may be, and what is said of one that may not; in this process, without servers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from afo.errors import AfoError, ModelError, NotFound, SpecError, Unsupported
from afo.job import Data, Embedding, Job, Model, Optimizer, RoleSpec, RowOptimizer, Sgd
from click_records import SCHEMA

pytestmark = pytest.mark.tensorflow

HEAD = """
import keras
import tensorflow as tf
from keras import layers, ops
from afo.layers import Embedding


def age(**options):
    return keras.Input((1,), name="age", **options)


def compiled(optimizer, loss="binary_crossentropy"):
    x = age()
    model = keras.Model({"age": x}, layers.Dense(1, activation="sigmoid")(x))
    model.compile(optimizer, loss=loss)
    return model


"""


#: A model of one table, whose arguments are to be filled in.
TABLE = """
def build():
    user = keras.Input((1,), dtype="int64", name="user")
    rows = layers.Flatten()(Embedding({}, name="t")(user))
    return keras.Model({{"user": user}}, ops.sum(rows, axis=1, keepdims=True))
"""


@pytest.fixture(autouse=True)
def no_graph_left() -> Iterator[None]:
    """Keras counts the names of layers in a process."""
    yield
    import keras

    keras.backend.clear_session()


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., Any]:
    """Writes a file with a function `build` and makes the trainer's model of it."""

    def make(
        build: str, labels: tuple[str, ...] = ("label",), optimizer: Optimizer | None = None, **options: Any
    ) -> Any:
        from afo.trainable.entry_model import EntryModel

        path = tmp_path / "my_ctr.py"
        path.write_text(HEAD + build)
        return EntryModel(
            SCHEMA,
            Job(
                name="own",
                roles={"ps": RoleSpec(), "worker": RoleSpec()},
                data=Data(train=("part-*",), label=labels),
                model=Model(entry=f"{path}:build", **options),
                optimizer=optimizer or Optimizer(),
            ),
        )

    return make


BAD: dict[str, tuple[str, type[AfoError], str]] = {
    "raises": ("def build():\n    return undefined_name", ModelError, r"NameError in line 20 of my_ctr.py: name 'und"),
    "raises in its call": (
        "class M(keras.Model):\n    def call(self, features):\n        return features['agee']\n\n"
        "def build():\n    return M()",
        ModelError,
        "my_ctr.py:build: KeyError in line 21 of my_ctr.py: agee",
    ),
    "is no Python": ("def build(:", ModelError, "SyntaxError in line 19 of my_ctr.py"),
    "has a NUL": ("# \0", ModelError, "my_ctr.py:build: SyntaxError: source code string cannot contain null bytes"),
    "exits": (
        "def build():\n    raise SystemExit(0)",
        ModelError,
        r"sys.exit\(0\) in line 20 of my_ctr.py: a model ends",
    ),
    "another name": ("def bild():\n    pass", SpecError, "has no function `build`; it has age, compiled, bild"),
    "no model": ("def build():\n    return 3", ModelError, "returned builtins.int"),
    "reads what is not there": (
        "def build():\n    x = keras.Input((1,), name='aeg')\n    return keras.Model({'aeg': x}, layers.Dense(1)(x))",
        ModelError,
        "reads an input `aeg`: .*did you mean `age`",
    ),
    "two outputs for one label": (
        "def build():\n    x = age()\n    return keras.Model({'age': x}, layers.Dense(2)(x))",
        ModelError,
        r"gives \[None, 2\] for 1 label \(label\); it must give \[batch, 1\]",
    ),
    "a parameter that it has not": ("def build(dim):\n    pass", SpecError, r"\$.model.params: .*takes \(dim\)"),
    "an optimizer that is not offered": (
        "def build():\n    return compiled('nadam')",
        Unsupported,
        "Nadam; offered are SGD, Adagrad, Adam, AdamW, RMSprop and Ftrl; name one in `optimizer.deep`",
    ),
    "momentum that RMSprop has not": (
        "def build():\n    return compiled(keras.optimizers.RMSprop(0.1, momentum=0.9))",
        Unsupported,
        "momentum=0.9",
    ),
    "a matrix of another shape for a table": (
        "def build():\n    ids = keras.Input((1,), dtype='int64', name='user')\n    layer = Embedding(5, 2)\n"
        "    x = layers.Dense(1)(layers.Flatten()(layer(ids)))\n    layer.set_weights([tf.zeros([5, 3])])\n"
        "    return keras.Model({'user': ids}, x)",
        ModelError,
        r"is given weights of \[.*5, 3.*\]; it takes one matrix of \(5, 2\)",
    ),
    "a train_step of its own": (
        "class M(keras.Model):\n    def train_step(self, data):\n        return {}\n\ndef build():\n    return M()",
        ModelError,
        "`train_step` of its own is not run",
    ),
    "a regularizer of nine rows": (
        TABLE.format("9, 2, embeddings_regularizer=lambda rows: tf.reduce_sum(rows * tf.ones([9, 1]))"),
        ModelError,
        "embedding `t`: its `embeddings_regularizer` fails on a few rows: InvalidArgumentError",
    ),
    "a constraint without a number of rows": (
        TABLE.format("None, 2, embeddings_constraint='non_neg'"),
        ModelError,
        "embedding `t` has no `input_dim`, and cannot be a hash table: its `embeddings_constraint`",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_model_that_cannot_be_trained_says_why(name: str, own: Callable[..., Any]) -> None:
    build, error, text = BAD[name]
    with pytest.raises(error, match=text):
        own(build)


def test_a_file_that_is_not_there_is_named() -> None:
    from afo.models.entry import load

    with pytest.raises(NotFound, match="there is no file"):
        load("no/such.py:build")


def test_parameters_and_features_reach_the_function(own: Callable[..., Any]) -> None:
    model = own(
        "def build(features, width, name='x'):\n"
        "    x = age()\n"
        "    assert features['city'].vocab == ('Bonn', 'Ulm', 'Trier')\n"
        "    return keras.Model({'age': x}, layers.Dense(1)(layers.Dense(width)(x)))",
        params={"width": 3},
    )
    assert model.parameters(2, 1).dense.rows == 3 + 3 + 3 + 1


OPTIMIZERS = {
    "keras.optimizers.SGD(0.25)": "Sgd(learning_rate=0.25)",
    "keras.optimizers.Adagrad(0.25, 0.5)": "Adagrad(learning_rate=0.25, initial_accumulator=0.5000001, epsilon=0.0)",
    "keras.optimizers.Adam(0.25, 0.5, 0.75, 1e-3)": "Adam(learning_rate=0.25, beta_1=0.5, beta_2=0.75, epsilon=0.001)",
    "keras.optimizers.Ftrl(0.25, l1_regularization_strength=0.5)": (
        "Ftrl(learning_rate=0.25, l1=0.5, l2=0.0, initial_accumulator=0.1, forgets_first=True)"
    ),
    "keras.optimizers.Ftrl(0.25, initial_accumulator_value=0.0)": (
        "Ftrl(learning_rate=0.25, l1=0.0, l2=0.0, initial_accumulator=0.0, forgets_first=True)"
    ),
    "keras.optimizers.SGD(0.25, momentum=0.5)": "Momentum(learning_rate=0.25, momentum=0.5, nesterov=False)",
    "keras.optimizers.RMSprop(0.25, rho=0.5)": "RMSprop(learning_rate=0.25, rho=0.5, epsilon=1e-07)",
}


@pytest.mark.parametrize("written", OPTIMIZERS)
def test_the_optimizer_of_a_compiled_model_is_taken(written: str, own: Callable[..., Any]) -> None:
    rule = own(f"def build():\n    return compiled({written})").parameters(1, 1).dense.rule
    assert str(rule.options) == OPTIMIZERS[written]


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("keras.optimizers.SGD(0.0)", r"compiled with keras\.optimizers\.SGD: Sgd: `learning_rate` is 0\.0; allowed:"),
        ("keras.optimizers.Adam(0.25, epsilon=0.0)", r"keras\.optimizers\.Adam: Adam: `epsilon` is 0\.0; allowed:"),
    ],
)
def test_numbers_of_a_compiled_optimizer_that_cannot_be_are_refused(
    written: str, words: str, own: Callable[..., Any]
) -> None:
    with pytest.raises(Unsupported, match=words):
        own(f"def build():\n    return compiled({written})").parameters(1, 1)


def test_a_schedule_of_keras_is_no_factor_of_the_tables_own_rate(own: Callable[..., Any]) -> None:
    build = (
        "def build():\n    rate = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)\n"
        "    return compiled(keras.optimizers.SGD(rate))"
    )
    own(build, optimizer=Optimizer(embedding=RowOptimizer(clip_value=1.0)))
    with pytest.raises(Unsupported, match=r"no factors of the rate in `optimizer.embedding`"):
        own(build, optimizer=Optimizer(embedding=RowOptimizer(sgd=Sgd())))


CONSTRAINED = {
    "keras.Model": (
        "def build():\n    x = age()\n"
        "    return keras.Model({'age': x}, layers.Dense(1, use_bias=False, kernel_constraint='non_neg')(x))"
    ),
    "tf.Module": (
        "class M(tf.Module):\n    def __init__(self):\n"
        "        self.layer = layers.Dense(1, use_bias=False, kernel_constraint='non_neg')\n\n"
        "    def __call__(self, features):\n        return self.layer(features['age'])\n\n"
        "def build():\n    return M()"
    ),
}


@pytest.mark.parametrize("kind", CONSTRAINED)
def test_a_checkpoint_is_evaluated_within_its_constraints(kind: str, own: Callable[..., Any]) -> None:
    from types import SimpleNamespace

    import tensorflow as tf

    model = own(CONSTRAINED[kind])
    features = {"age": tf.constant([[1.0]]), **{name: tf.zeros([1, 1]) for name in ("user", "city", "liked")}}

    def answer(step: int) -> float:
        whole = {"dense": np.array([-0.5], np.float32)}
        reader = SimpleNamespace(whole=whole.__getitem__, manifest=SimpleNamespace(step=step), url="checkpoint")
        return float(model.local(reader).probabilities(features)[0, 0])

    # Keras constrains what an update has changed, and not what a layer begins with.
    assert (answer(0), answer(1)) == (-0.5, 0.0)


def test_the_rows_of_a_checkpoint_are_evaluated_within_their_constraint(
    own: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    import tensorflow as tf

    from afo.trainable import own_module

    monkeypatch.setattr(own_module, "BLOCK", 2)
    model = own(TABLE.format("3, 2, embeddings_constraint='non_neg'"))
    reader = SimpleNamespace(
        whole=lambda name: np.zeros(0, np.float32),
        table=lambda name, rows, width: np.array([[-1, 2], [3, 4], [5, -6]], np.float32),
        manifest=SimpleNamespace(step=1),
        url="checkpoint",
    )
    features = {"user": tf.constant([[0], [1], [2]], tf.int64)}
    assert model.local(reader).probabilities(features).numpy().tolist() == [[2.0], [7.0], [5.0]]


def test_layers_of_a_module_add_to_its_loss(own: Callable[..., Any]) -> None:
    import tensorflow as tf

    model = own(
        "class M(tf.Module):\n    def __init__(self):\n"
        "        l2 = keras.regularizers.L2(0.25)\n"
        "        self.layer = layers.Dense(1, kernel_initializer='ones', kernel_regularizer=l2)\n"
        "        self.again = [self.layer, layers.ActivityRegularization(l2=0.5)]\n\n"
        "    def __call__(self, features):\n        return self.again[1](self.layer(features['age']))\n\n"
        "def build():\n    return M()",
        from_logits=True,
    )
    features = {"age": tf.constant([[2.0]]), **{name: tf.zeros([1, 1]) for name in ("user", "city", "liked")}}
    outputs = model._own.outputs(features, training=True)
    loss = model._own.loss(features, tf.constant([[1.0]]), tf.constant([1.0]), outputs)
    assert float(loss) == pytest.approx(np.log1p(np.exp(-2.0)) + 0.25 + 0.5 * 4)


def test_outputs_by_name_stand_in_the_order_of_the_labels(own: Callable[..., Any]) -> None:
    import tensorflow as tf

    model = own(
        "def build():\n    x = age()\n    return keras.Model({'age': x}, {'b': x * 2, 'a': x})", labels=("a", "b")
    )
    given = model._own.probabilities({"age": tf.constant([[0.25], [0.5]])})
    assert given.numpy().tolist() == [[0.25, 0.5], [0.5, 1.0]]


FORMS = {
    "Sequential": "keras.Sequential([age(), layers.Dense(1, activation='sigmoid')])",
    "one input by its place": "(lambda x: keras.Model(x, layers.Dense(1, activation='sigmoid')(x)))(age())",
    "a list of inputs": "(lambda x: keras.Model([x], layers.Dense(1, activation='sigmoid')(x)))(age())",
}


@pytest.mark.parametrize("form", FORMS)
def test_inputs_need_not_be_a_dict(form: str, own: Callable[..., Any]) -> None:
    import tensorflow as tf

    model = own(f"def build():\n    return {FORMS[form]}")._own
    assert model.inputs == ("age",)
    given = {"age": tf.constant([[1.0], [-1.0]]), "city": tf.constant([["Ulm"], ["Bonn"]])}
    answers = model.probabilities(given).numpy()
    assert answers.shape == (2, 1)
    assert answers.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["uniform", "glorot_normal", "orthogonal"])
def test_first_rows_have_the_spread_of_keras(name: str) -> None:
    import keras
    import numpy as np

    from afo.layers import Embedding
    from afo.trainable.keras_initializers import draw_of

    layer = Embedding(400, 30, embeddings_initializer=name)
    draw = draw_of(layer, 2, 1)
    rows = np.concatenate([draw((200, 30), 4), draw((200, 30), 5)])
    whole = keras.initializers.get(name)((400, 30))
    assert rows.std() == pytest.approx(float(np.std(whole)), rel=0.03)
    assert len(np.unique(rows[:, 0])) > 390


def embeddings(call: str, **options: str) -> str:
    """A model whose layer `e` with these options, 3 wide, is called as `call` says: of `city` and `user`."""
    given = {"input_dim": "50", **options}
    words = ", ".join(f"{name}={value}" for name, value in given.items())
    return f"""
class M(tf.Module):
    def __init__(self):
        super().__init__()
        self.e = Embedding(output_dim=3, name="e", {words})
        self.v = tf.Variable(1.0)
        self.words = layers.StringLookup(vocabulary=["Bonn", "Ulm"])
        self.out = layers.Dense(1)

    def __call__(self, features, training=False):
        city, user = features["city"], features["user"]
        {call}
        return self.out(tf.reshape(rows, [-1, 3])) * self.v


def build():
    return M()
"""


HASHED = {
    "ids as they are": (embeddings("rows = self.e(user)"), True),
    "without a number of rows": (embeddings("rows = self.e(user)", input_dim="None"), True),
    "strings": (embeddings("rows = self.e(city)", input_dim="None"), True),
    "a vocabulary": (embeddings("rows = self.e(self.words(city))"), True),
    "called twice": (embeddings("rows = self.e(user) + self.e(self.words(city))"), True),
    "random ids": (embeddings("rows = self.e(tf.random.uniform(tf.shape(user), 0, 50, tf.int64))"), False),
    "ids of a variable": (embeddings("rows = self.e(user % 7 + tf.cast(self.v, tf.int64))"), False),
    "in a loop": (embeddings("rows = tf.map_fn(self.e, user, fn_output_signature=tf.float32)"), False),
    "once more in training": (embeddings("rows = self.e(user) + (self.e(user) if training else 0.0)"), False),
    "a spread by the number of rows": (embeddings("rows = self.e(user)", embeddings_initializer="'he_normal'"), False),
}


@pytest.mark.parametrize("case", HASHED)
def test_a_layer_has_a_hash_table_if_its_calls_can_be_foreseen_and_its_rows_are_their_keys_alone(
    own: Callable[..., Any], case: str
) -> None:
    source, hashed = HASHED[case]
    model = own(source)
    parameters = model.parameters(2, 1)
    assert [table.name for table in parameters.tables] == ([] if hashed else ["embedding.e"])
    tables = [] if parameters.embeddings is None else parameters.embeddings.tables
    assert [(table.name, table.dim) for table in tables] == ([("embedding.e", 3)] if hashed else [])
    assert {section.tensor for section in model.sections(parameters)} >= {"embedding.e"}


def test_of_dense_storage_no_layer_has_a_hash_table(own: Callable[..., Any]) -> None:
    model = own(HASHED["ids as they are"][0], embedding=Embedding(storage="dense"))
    assert model.parameters(2, 1).embeddings is None


@pytest.mark.parametrize(
    ("case", "storage", "words"),
    [
        ("rows = self.e(tf.random.uniform(tf.shape(user), 0, 50, tf.int64))", "hash_table", "on random numbers"),
        ("rows = self.e(user)", "dense", "`embedding.storage` is `dense`"),
        (
            "rows = tf.map_fn(self.e, user, fn_output_signature=tf.float32)",
            "hash_table",
            "called inside of a loop, a condition or a function",
        ),
    ],
)
def test_without_a_number_of_rows_it_must_be_a_hash_table(
    own: Callable[..., Any], case: str, storage: Any, words: str
) -> None:
    with pytest.raises(ModelError, match=rf"embedding `e` has no `input_dim`, and cannot be a hash table: .*{words}"):
        own(embeddings(case, input_dim="None"), embedding=Embedding(storage=storage))


@pytest.mark.parametrize(
    "options",
    [{"wire": "'bfloat16'"}, {"pooling": "'servers'", "combiner": "'sum'"}, {"filter": "{'min_count': 2}"},
     {"evict": "{'capacity': 9}"}],
)  # fmt: skip
def test_a_layer_says_of_hash_tables_only_where_it_can_have_one(
    own: Callable[..., Any], options: dict[str, str]
) -> None:
    option = next(iter(options))
    source = embeddings("rows = self.e(user)", **options)
    assert own(source).parameters(2, 1).embeddings is not None
    words = rf"embedding `e` has `{option}`, which is of hash tables, and cannot be one: .*storage` is `dense`"
    with pytest.raises(ModelError, match=words):
        own(source, embedding=Embedding(storage="dense"))


def test_outside_of_a_job_a_layer_needs_a_number_of_rows() -> None:
    from afo.layers import Embedding as Layer

    with pytest.raises(ModelError, match="embedding `free` has no `input_dim`"):
        Layer(None, 4, name="free").build()


def test_a_checkpoint_is_evaluated_without_native_operations(
    own: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np
    import tensorflow as tf

    from afo.ops import library
    from afo.tables.saved_tables import Rows

    model = own(HASHED["without a number of rows"][0])
    dense = model.parameters(1, 0).dense.rows
    rows = Rows(np.arange(3), np.ones((3, 3), np.float32))
    reader: Any = mock.Mock(hash_tables=lambda dims: dict.fromkeys(dims, rows))
    reader.whole.return_value = np.ones(dense, np.float32)
    monkeypatch.setattr(library, "load", mock.Mock(side_effect=Unsupported("none here")))
    local = model.local(reader)
    given = {"user": [[1], [7]], "city": [["Ulm"], ["Bonn"]], "liked": [[1, 2]] * 2, "age": [[1.0]] * 2}
    features = {name: tf.constant(values) for name, values in given.items()}
    assert local.probabilities(features).shape == (2, 1)


METRICS = """
def build():
    x = age()
    model = keras.Model({"age": x}, layers.Dense(1, activation="sigmoid")(x))
    model.compile(
        loss="binary_crossentropy", weighted_metrics=["mse"],
        metrics=["accuracy", keras.metrics.AUC(), keras.metrics.AUC(curve="PR", name="pr_auc")],
    )
    return model
"""
TWO_OUTPUTS = """
def build():
    x = age()
    outputs = {name: layers.Dense(1, name=name)(x) for name in ("buy", "label")}
    model = keras.Model({"age": x}, outputs)
    model.compile(
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics={name: [keras.metrics.BinaryAccuracy(threshold=0.0, name="acc")] for name in outputs},
    )
    return model
"""


def drawn(labels: int) -> tuple[Any, Any]:
    """Labels and probabilities of more records than are given to a metric at once."""
    draw = np.random.default_rng(3)
    probabilities = draw.uniform(0.01, 0.99, (20_000, labels)).astype(np.float32)
    return (draw.uniform(size=probabilities.shape) < probabilities).astype(np.float32), probabilities


def test_metrics_that_a_model_was_compiled_with_are_those_of_keras(own: Callable[..., Any]) -> None:
    import keras

    labels, probabilities = drawn(1)
    module = own(METRICS)._own
    found = module.metrics(labels, probabilities)
    expected = {
        "accuracy": keras.metrics.BinaryAccuracy(), "auc": keras.metrics.AUC(),
        "pr_auc": keras.metrics.AUC(curve="PR"), "mse": keras.metrics.MeanSquaredError(),
    }  # fmt: skip
    for metric in expected.values():
        metric.update_state(labels, probabilities)
    assert found == pytest.approx({name: float(metric.result()) for name, metric in expected.items()}, abs=1e-6)
    assert module.metrics(labels, probabilities) == found, "each evaluation begins anew"


def test_metrics_of_several_outputs_get_what_the_model_gives(own: Callable[..., Any]) -> None:
    labels, probabilities = drawn(2)
    found = own(TWO_OUTPUTS, labels=("label", "buy"))._own.metrics(labels, probabilities)
    right = ((probabilities > 0.5) == labels).mean(axis=0)
    assert found == pytest.approx({"label_acc": right[0], "buy_acc": right[1]}, abs=1e-4)


def test_a_model_without_metrics_has_none(own: Callable[..., Any]) -> None:
    assert own("def build():\n    return compiled('adam')")._own.metrics(*drawn(1)) == {}


def test_a_metric_of_several_numbers_is_refused(own: Callable[..., Any]) -> None:
    many = METRICS.replace('"accuracy"', "keras.metrics.Precision(thresholds=[0.2, 0.5])")
    with pytest.raises(ModelError, match=r"metric `precision` is \[2\] values"):
        own(many)._own.metrics(*drawn(1))
