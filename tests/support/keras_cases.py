"""What of Keras changes a training: each option is a line that works as in Keras, or is refused.

`python tests/support/keras_cases.py > docs/keras.md` writes the page;
`tests/afo/train/test_keras_options.py` proves it.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import callbacks as cb
from keras import constraints, layers, losses, ops, regularizers
from keras import optimizers as opt
from keras.optimizers import schedules
from msgspec.structs import replace

from afo.job import EarlyStop, Export, Job, Optimizer, OptimizerChoice, Sgd, Train
from afo.layers import Embedding

#: Rows of the table, each named once by every batch.
USERS, DIM = 8, 4
_BOTH = ("hash_table", "dense")


@dataclass(frozen=True)
class Case:
    """A line of the table."""

    #: As a user writes it.
    option: str
    #: Layers before the last one; options of the embedding; of `compile`.
    layers: Callable[[], Sequence[Any]] = tuple
    embedding: Callable[[], dict[str, Any]] = dict
    compile: Callable[[], dict[str, Any]] = dict
    #: Of `fit`, and `data.class_weight` of the job.
    class_weight: dict[int, float] | None = None
    callbacks: Callable[[], list[Any]] = list
    #: What else the job file says.
    job: Callable[[Job], Job] = lambda job: job
    #: What is done to the model after all.
    then: Callable[[Any], object] = lambda model: None
    activation: str | None = "sigmoid"
    #: What the refusal says; empty: it works as in Keras.
    refused: str = ""
    #: What to do instead, of what is refused; what to know, of what works.
    note: str = ""
    storages: tuple[str, ...] = ("hash_table",)

    def build(self) -> Any:
        """The model, compiled."""
        user = keras.Input((1,), dtype="int64", name="user")
        age = keras.Input((1,), name="age")
        options = {"embeddings_initializer": "ones", "name": "rows"} | self.embedding()
        x = ops.concatenate([layers.Flatten()(Embedding(USERS, DIM, **options)(user)), age], axis=1)
        for layer in self.layers():
            x = layer(x)
        outputs = layers.Dense(1, activation=self.activation)(x)
        model = keras.Model({"user": user, "age": age}, outputs)
        options = {"optimizer": opt.SGD(0.5), "loss": "binary_crossentropy", "jit_compile": False}
        model.compile(**options | self.compile())
        self.then(model)
        return model


def _optimizer(option: str, make: Callable[[], Any], **rest: Any) -> Case:
    return Case(option, compile=lambda: {"optimizer": make()}, **rest)


def _layer(option: str, *make: Callable[[], Any], **rest: Any) -> Case:
    return Case(option, layers=lambda: [each() for each in make], **rest)


def _frozen(layer: Any) -> Any:
    layer.trainable = False
    return layer


def _no_decay_of_biases() -> Any:
    optimizer = opt.AdamW(0.05)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer


class _Penalty(layers.Layer):  # type: ignore[misc]  # Keras is untyped
    def call(self, inputs: Any) -> Any:
        self.add_loss(0.1 * ops.mean(ops.square(inputs)))
        return inputs


class MyCallback(cb.EarlyStopping):  # type: ignore[misc]  # Keras is untyped
    pass


def _stopping(job: Job, metric: str, patience: int, min_delta: float = 0.0) -> Job:
    rule = EarlyStop(metric=metric, patience=patience, min_delta=min_delta)
    return replace(job, train=Train(early_stop=rule), export=Export(metric=metric))


_MATRIX = np.linspace(-1, 1, USERS * DIM, dtype=np.float32).reshape(USERS, DIM)
#: From here a few steps lead beyond each of the constraints.
_SMALL = keras.initializers.Constant(0.05)
_OF_A_BATCH = "for the rows that a batch names"
_DEEP = "name one in `optimizer.deep` of the job file"

GROUPS: dict[str, list[Case]] = {
    "Layers": [
        _layer("Dense(kernel_constraint=NonNeg())", lambda: layers.Dense(4, kernel_constraint=constraints.NonNeg())),
        _layer(
            "Dense(kernel_constraint=MaxNorm(0.5))", lambda: layers.Dense(4, kernel_constraint=constraints.MaxNorm(0.5))
        ),
        _layer(
            "Dense(kernel_constraint=UnitNorm())", lambda: layers.Dense(4, kernel_constraint=constraints.UnitNorm())
        ),
        _layer(
            "Dense(kernel_constraint=MinMaxNorm(0.2, 0.4, rate=0.5))",
            lambda: layers.Dense(4, kernel_constraint=constraints.MinMaxNorm(0.2, 0.4, rate=0.5)),
        ),
        _layer("Dense(bias_constraint=NonNeg())", lambda: layers.Dense(4, bias_constraint=constraints.NonNeg())),
        _layer(
            "a function of the user's as a constraint",
            lambda: layers.Dense(4, kernel_constraint=lambda w: ops.clip(w, -0.2, 0.2)),
        ),
        _layer(
            "Dense(kernel_regularizer=L1L2(...))",
            lambda: layers.Dense(4, kernel_regularizer=regularizers.L1L2(0.02, 0.03)),
        ),
        _layer(
            "Dense(bias_regularizer=L2(...))",
            lambda: layers.Dense(4, bias_regularizer=regularizers.L2(0.3), bias_initializer="ones"),
        ),
        _layer(
            "Dense(activity_regularizer=L2(...))", lambda: layers.Dense(4, activity_regularizer=regularizers.L2(0.1))
        ),
        _layer("Dense(use_bias=False)", lambda: layers.Dense(4, use_bias=False)),
        _layer("trainable=False of a layer", lambda: layers.Dense(4, trainable=False)),
        _layer("layer.trainable = False", lambda: _frozen(layers.Dense(4))),
        _layer("BatchNormalization(momentum=...)", lambda: layers.BatchNormalization(momentum=0.7)),
        _layer(
            "BatchNormalization(gamma_constraint=...)",
            lambda: layers.BatchNormalization(gamma_constraint=constraints.MinMaxNorm(0.1, 0.3), beta_regularizer="l2"),
        ),
        _layer("LayerNormalization()", layers.LayerNormalization),
        _layer("SpectralNormalization(Dense(...))", lambda: layers.SpectralNormalization(layers.Dense(4))),
        _layer(
            "PReLU(alpha_constraint=...)",
            lambda: layers.PReLU(alpha_constraint=constraints.NonNeg(), alpha_initializer="ones"),
        ),
        _layer("add_loss in a layer", _Penalty),
        _layer("Dropout(0.5)", lambda: layers.Dropout(0.5, seed=1), note="each worker draws masks of its own"),
    ],
    "afo.layers.Embedding": [
        Case("trainable=False", embedding=lambda: {"trainable": False}, storages=_BOTH),
        Case(
            "trainable=False with AdamW",
            embedding=lambda: {"trainable": False},
            compile=lambda: {"optimizer": opt.AdamW(0.05, weight_decay=0.3)},
            storages=_BOTH,
        ),
        Case(
            "embeddings_initializer=Constant(...)",
            embedding=lambda: {"embeddings_initializer": keras.initializers.Constant(0.3)},
            storages=_BOTH,
        ),
        Case("weights=[matrix]", embedding=lambda: {"weights": [_MATRIX]}, note="a dense table"),
        Case(
            "set_weights([matrix])",
            then=lambda model: model.get_layer("rows").set_weights([_MATRIX]),
            note="a dense table",
        ),
        Case(
            "activity_regularizer=L2(...)",
            embedding=lambda: {"activity_regularizer": regularizers.L2(0.1)},
            storages=_BOTH,
        ),
        *(
            Case(
                f"embeddings_regularizer={text}",
                embedding=lambda made=made: {"embeddings_regularizer": made()},
                storages=_BOTH,
                note=_OF_A_BATCH,
            )
            for text, made in {
                "L1(...)": lambda: regularizers.L1(0.02),
                "L2(...)": lambda: regularizers.L2(0.1),
                "L1L2(...)": lambda: regularizers.L1L2(0.02, 0.03),
                "a function of the user's": lambda: lambda rows: 0.1 * ops.sum(ops.square(rows) ** 2),
            }.items()
        ),
        Case(
            "embeddings_regularizer=..., clipnorm=...",
            embedding=lambda: {"embeddings_regularizer": regularizers.L2(0.1)},
            compile=lambda: {"optimizer": opt.Adam(0.05, clipnorm=0.02, epsilon=0.1)},
            storages=_BOTH,
            note=_OF_A_BATCH,
        ),
        Case(
            "embeddings_regularizer=..., trainable=False",
            embedding=lambda: {"embeddings_regularizer": "l2", "trainable": False},
            note="adds nothing",
        ),
        *(
            Case(
                f"embeddings_constraint={text}",
                embedding=lambda made=made: {"embeddings_constraint": made(), "embeddings_initializer": _SMALL},
                compile=lambda: {"optimizer": opt.Adam(0.05, epsilon=0.01)},
                storages=_BOTH,
                note="a dense table; rows that a batch names",
            )
            for text, made in {
                "NonNeg()": constraints.NonNeg,
                "MaxNorm(0.3, axis=1)": lambda: constraints.MaxNorm(0.3, axis=1),
                "UnitNorm(axis=1)": lambda: constraints.UnitNorm(axis=1),
                "MinMaxNorm(0.2, 0.4, rate=0.5, axis=1)": lambda: constraints.MinMaxNorm(0.2, 0.4, 0.5, axis=1),
                "a function of the user's": lambda: lambda rows: ops.clip(rows, -0.2, 0.2),
            }.items()
        ),
        Case(
            "embeddings_regularizer=OrthogonalRegularizer()",
            embedding=lambda: {"embeddings_regularizer": regularizers.OrthogonalRegularizer()},
            refused="`embeddings_regularizer` that is no sum over rows",
            note="`keras.layers.Embedding` for a small table",
        ),
        Case(
            "embeddings_regularizer=a mean over the table",
            embedding=lambda: {"embeddings_regularizer": lambda rows: ops.mean(ops.square(rows))},
            refused="`embeddings_regularizer` that is no sum over rows",
            note="a sum, times a share",
        ),
        *(
            Case(
                f"embeddings_constraint={type(made).__name__}(...)",
                embedding=lambda made=made: {"embeddings_constraint": made},
                refused="`embeddings_constraint` that bounds a row by the others",
                note="the same with `axis=1`",
            )
            for made in (constraints.MaxNorm(0.3), constraints.UnitNorm(), constraints.MinMaxNorm())
        ),
        Case(
            "embeddings_constraint=... with Ftrl",
            embedding=lambda: {"embeddings_constraint": "non_neg"},
            compile=lambda: {"optimizer": opt.Ftrl(0.1)},
            refused="weights with a constraint",
            note="another optimizer",
        ),
        Case(
            "lora_rank=2",
            embedding=lambda: {"lora_rank": 2},
            refused="takes the whole table at every step",
            note="train the table itself",
        ),
    ],
    "compile and fit": [
        Case(
            "fit(class_weight={0: ..., 1: ...})",
            class_weight={0: 0.5, 1: 4.0},
            note="`data.class_weight` of the job file",
        ),
        Case("loss='mean_squared_error'", compile=lambda: {"loss": "mean_squared_error"}),
        Case(
            "loss=BinaryCrossentropy(label_smoothing=...)",
            compile=lambda: {"loss": losses.BinaryCrossentropy(label_smoothing=0.2)},
        ),
        Case(
            "loss=BinaryCrossentropy(from_logits=True)",
            compile=lambda: {"loss": losses.BinaryCrossentropy(from_logits=True)},
            activation=None,
        ),
        Case(
            "loss=BinaryFocalCrossentropy(...)",
            compile=lambda: {"loss": losses.BinaryFocalCrossentropy(apply_class_balancing=True, gamma=1.5)},
        ),
        Case(
            "loss=...(reduction='sum')",
            compile=lambda: {"loss": losses.BinaryCrossentropy(reduction="sum"), "optimizer": opt.SGD(0.05)},
        ),
        Case("loss=a function of the user's", compile=lambda: {"loss": lambda y, p: ops.mean(ops.square(y - p) ** 2)}),
        Case("loss_weights=...", compile=lambda: {"loss_weights": [0.3]}),
        Case(
            "jit_compile, run_eagerly, steps_per_execution",
            compile=lambda: {"jit_compile": False, "steps_per_execution": 1},
            note="concern how Keras runs; no effect here",
        ),
    ],
    "Callbacks": [
        Case(
            "LearningRateScheduler(...)",
            callbacks=lambda: [cb.LearningRateScheduler(lambda epoch, rate: 0.3 if epoch == 2 else rate * 0.8)],
            compile=lambda: {"optimizer": opt.SGD(0.5, momentum=0.5)},
            storages=_BOTH,
            note="each batch has the rate of its records' epoch",
        ),
        Case(
            "EarlyStopping('val_auc', patience=2, restore_best_weights=True)",
            callbacks=lambda: [cb.EarlyStopping("val_auc", patience=2, mode="max", restore_best_weights=True)],
            job=lambda job: _stopping(job, "auc", 2),
            note="where `train.early_stop` and `export` say the same; by evaluations",
        ),
        Case(
            "EarlyStopping('val_loss', min_delta=0.01)",
            callbacks=lambda: [cb.EarlyStopping("val_loss", min_delta=0.01)],
            job=lambda job: _stopping(job, "log_loss", 1, 0.01),
            note="the same; only plain binary cross-entropy, without the losses that layers add",
        ),
        Case("TerminateOnNaN()", callbacks=lambda: [cb.TerminateOnNaN()], note="every job does this: `not_finite`"),
        Case("History(), ProgbarLogger()", callbacks=lambda: [cb.History(), cb.ProgbarLogger()], note="only look"),
        *(
            Case(f"EarlyStopping({text})", callbacks=lambda made=made: [made()], refused=refused, note=note)
            for text, made, refused, note in (
                (
                    "...",
                    lambda: cb.EarlyStopping("val_auc", mode="max", patience=4),
                    "write `train: {early_stop: {metric: auc, patience: 4, min_delta: 0.0}}`",
                    "the line that the refusal shows",
                ),
                ("'val_f1'", lambda: cb.EarlyStopping("val_f1", mode="max"), "here it can monitor", "`val_auc`"),
                (
                    "..., mode='min'",
                    lambda: cb.EarlyStopping("val_auc", mode="min"),
                    "has mode='min', which is not offered",
                    "`max` for AUC",
                ),
                (
                    "..., baseline=0.7",
                    lambda: cb.EarlyStopping("val_loss", baseline=0.7),
                    "has baseline=0.7, which is not offered",
                    "`export.require`",
                ),
                (
                    "..., start_from_epoch=3",
                    lambda: cb.EarlyStopping("val_loss", start_from_epoch=3),
                    "has start_from_epoch=3, which is not offered",
                    "more `patience`",
                ),
            )
        ),
        Case(
            "EarlyStopping(..., restore_best_weights=True), export.checkpoint: last",
            callbacks=lambda: [cb.EarlyStopping("val_loss", restore_best_weights=True)],
            job=lambda job: replace(_stopping(job, "log_loss", 1), export=Export(checkpoint="last")),
            refused="write `export: {checkpoint: best, metric: log_loss}`",
            note="the line that the refusal shows",
        ),
        Case(
            "EarlyStopping('val_loss'), another loss",
            callbacks=lambda: [cb.EarlyStopping("val_loss")],
            compile=lambda: {"loss": "mean_squared_error"},
            refused="monitors `val_loss`, by which no evaluation ends a job; here it can monitor val_auc",
            note="`val_auc`",
        ),
        Case(
            "LearningRateScheduler(...), a schedule in compile",
            callbacks=lambda: [cb.LearningRateScheduler(lambda epoch: 0.1)],
            compile=lambda: {"optimizer": opt.SGD(schedules.ExponentialDecay(0.6, 2, 0.5))},
            refused="which callback LearningRateScheduler cannot set",
            note="one of them",
        ),
        Case(
            "LearningRateScheduler(...), optimizer.deep of the job file",
            callbacks=lambda: [cb.LearningRateScheduler(lambda epoch: 0.1)],
            job=lambda job: replace(job, optimizer=Optimizer(deep=OptimizerChoice(sgd=Sgd()))),
            refused="`optimizer.deep` of the job file goes before it",
            note="`optimizer.schedule`",
        ),
        *(
            Case(f"{text}(...)", callbacks=lambda made=made: [made()], refused=f"callback {text}: {said}", note=note)
            for text, made, said, note in (
                ("ReduceLROnPlateau", cb.ReduceLROnPlateau, "evaluations are made beside", "LearningRateScheduler"),
                ("ModelCheckpoint", lambda: cb.ModelCheckpoint("x.keras"), "the job saves", "`checkpoint.every`"),
                (
                    "BackupAndRestore",
                    lambda: cb.BackupAndRestore("x"),
                    "the job saves",
                    "nothing: `checkpoint.every` has a default",
                ),
                ("TensorBoard", lambda: cb.TensorBoard("x"), "losses and metrics are in", "`afo tb`"),
                ("CSVLogger", lambda: cb.CSVLogger("x"), "losses and metrics are in", "`afo events --json`"),
                ("RemoteMonitor", cb.RemoteMonitor, "losses and metrics are in", "`afo events --json`"),
                ("SwapEMAWeights", cb.SwapEMAWeights, "no averages", "`optimizer.schedule`"),
                ("LambdaCallback", cb.LambdaCallback, "no process sees", "a layer, `compute_loss`, `on_end`"),
                ("MyCallback", MyCallback, "no process sees", "a layer, `compute_loss`, `on_end`"),
            )
        ),
    ],
    "Optimizers": [
        _optimizer("SGD(...)", lambda: opt.SGD(0.3), storages=_BOTH),
        _optimizer("SGD(momentum=...)", lambda: opt.SGD(0.3, momentum=0.8), storages=_BOTH),
        _optimizer(
            "SGD(momentum=..., nesterov=True)", lambda: opt.SGD(0.3, momentum=0.8, nesterov=True), storages=_BOTH
        ),
        _optimizer(
            "Adagrad(initial_accumulator_value=..., epsilon=...)",
            lambda: opt.Adagrad(0.3, initial_accumulator_value=0.05, epsilon=0.02),
            storages=_BOTH,
        ),
        _optimizer(
            "Adam(beta_1=..., beta_2=..., epsilon=...)",
            lambda: opt.Adam(0.05, beta_1=0.8, beta_2=0.9, epsilon=1e-3),
            storages=_BOTH,
            note="rows that a batch does not name stay as they are (lazy)",
        ),
        _optimizer("Adam(weight_decay=...)", lambda: opt.Adam(0.05, weight_decay=0.2), note="becomes AdamW"),
        _optimizer(
            "AdamW(weight_decay=...)",
            lambda: opt.AdamW(0.05, weight_decay=0.3),
            storages=_BOTH,
            note="in a table, for the rows that a batch names",
        ),
        _optimizer("RMSprop(rho=..., epsilon=...)", lambda: opt.RMSprop(0.03, rho=0.7, epsilon=1e-3), storages=_BOTH),
        _optimizer(
            "Ftrl(l1_..., l2_..., beta=...)",
            lambda: opt.Ftrl(0.3, l1_regularization_strength=0.01, l2_regularization_strength=0.02, beta=0.1),
            storages=_BOTH,
        ),
        _optimizer("clipvalue=...", lambda: opt.SGD(0.5, clipvalue=0.02), storages=_BOTH),
        _optimizer(
            "clipnorm=...",
            lambda: opt.Adam(0.05, clipnorm=0.02, epsilon=0.1),
            storages=_BOTH,
            note="in a table, over the rows that a batch names, together",
        ),
        _optimizer("global_clipnorm=...", lambda: opt.SGD(0.5, global_clipnorm=0.05), storages=_BOTH),
        _optimizer(
            "learning_rate=ExponentialDecay(...)",
            lambda: opt.SGD(schedules.ExponentialDecay(0.6, 2, 0.5)),
            storages=_BOTH,
        ),
        _optimizer(
            "learning_rate=CosineDecay(..., warmup_steps=...)",
            lambda: opt.Adam(schedules.CosineDecay(0.01, 4, warmup_target=0.1, warmup_steps=2)),
        ),
        _optimizer(
            "learning_rate=PiecewiseConstantDecay(...), momentum=...",
            lambda: opt.SGD(schedules.PiecewiseConstantDecay([2, 4], [0.5, 0.1, 0.02]), momentum=0.9),
            storages=_BOTH,
        ),
        _optimizer(
            "Ftrl(learning_rate=a schedule)",
            lambda: opt.Ftrl(schedules.ExponentialDecay(0.6, 2, 0.5)),
            refused="would rescale the weights learned so far",
            note="a number, and `optimizer.schedule`",
        ),
        Case(
            "a constraint with Ftrl",
            layers=lambda: [layers.Dense(4, kernel_constraint=constraints.NonNeg())],
            compile=lambda: {"optimizer": opt.Ftrl(0.1)},
            refused="weights with a constraint",
            note="another optimizer",
        ),
        _optimizer(
            "Ftrl(learning_rate_power=...)",
            lambda: opt.Ftrl(0.1, learning_rate_power=-0.4),
            refused="learning_rate_power=-0.4",
            note="-0.5",
        ),
        _optimizer(
            "Ftrl(l2_shrinkage_...=...)",
            lambda: opt.Ftrl(0.1, l2_shrinkage_regularization_strength=0.1),
            refused="l2_shrinkage_regularization_strength=0.1",
            note="`l2_regularization_strength`",
        ),
        _optimizer(
            "SGD(weight_decay=...)",
            lambda: opt.SGD(0.1, weight_decay=0.1),
            refused="which AdamW alone has",
            note="AdamW, or a `kernel_regularizer`",
        ),
        _optimizer(
            "AdamW().exclude_from_weight_decay(...)",
            _no_decay_of_biases,
            refused="leaves variables out",
            note="Adam with a `kernel_regularizer`",
        ),
        _optimizer(
            "RMSprop(momentum=...)",
            lambda: opt.RMSprop(0.1, momentum=0.5),
            refused="momentum=0.5",
            note="RMSprop without, or SGD with momentum",
        ),
        _optimizer(
            "RMSprop(centered=True)",
            lambda: opt.RMSprop(0.1, centered=True),
            refused="centered=True",
            note="RMSprop, or Adam",
        ),
        _optimizer("Adam(amsgrad=True)", lambda: opt.Adam(0.1, amsgrad=True), refused="amsgrad=True", note="Adam"),
        _optimizer(
            "use_ema=True",
            lambda: opt.SGD(0.1, use_ema=True),
            refused="use_ema=True",
            note="a falling rate: `optimizer.schedule`",
        ),
        _optimizer(
            "gradient_accumulation_steps=...",
            lambda: opt.SGD(0.1, gradient_accumulation_steps=2),
            refused="gradient_accumulation_steps=2",
            note="a larger `data.batch_size`",
        ),
        _optimizer(
            "loss_scale_factor=...",
            lambda: opt.SGD(0.1, loss_scale_factor=2.0),
            refused="loss_scale_factor=2.0",
            note="weights are float32 here and need none",
        ),
        _optimizer(
            "LossScaleOptimizer(...)",
            lambda: opt.LossScaleOptimizer(opt.SGD(0.1)),
            refused="LossScaleOptimizer",
            note="the inner optimizer",
        ),
        *(
            _optimizer(
                f"{name}(...)",
                lambda name=name: getattr(opt, name)(0.1),
                refused=f"compiled with keras.optimizers.{name}",
                note=_DEEP,
            )
            for name in ("Adadelta", "Adafactor", "Adamax", "Lamb", "Lion", "Muon", "Nadam")
        ),
    ],
}
CASES = {case.option: case for cases in GROUPS.values() for case in cases}


def build(name: str) -> Any:
    """`model.entry` of a job: the model of a line."""
    return CASES[name].build()


def callbacks(name: str) -> list[Any]:
    """What stands beside it."""
    return CASES[name].callbacks()


def page() -> str:
    """`docs/keras.md`."""
    lines = [_HEAD.strip()]
    for title, cases in GROUPS.items():
        lines += ["", f"## {title}", "", "| Keras | in a job of afo | note |", "|---|---|---|"]
        for case in cases:
            note = f"instead: {case.note}" if case.refused else case.note
            lines.append(f"| `{case.option}` | {'refused' if case.refused else 'as in Keras'} | {note} |")
    return "\n".join([*lines, "", _TAIL.strip(), ""])


_HEAD = """
# Keras options that affect training

A model compiled with Keras trains in a job as it does in Keras, or is refused with a reason before it trains.
Each row is a test (`tests/afo/train/test_keras_options.py`): six steps on two parameter servers and one worker against
`train_on_batch` on the same batches, where losses and weights agree to 1e-5, or the refusal. This page is generated
from that test's table, `tests/support/keras_cases.py`.
"""
_TAIL = """
## Intended differences

- A row of a table that a batch does not name stays as it is: neither momentum, Adam's mean, decay, a regularizer nor a
  constraint changes it (lazy). The loss includes the `embeddings_regularizer` of the rows that the batch names, each
  once; such rows come to the worker, even where they could be pooled on the servers.
- For a row that a batch names several times, an optimizer sees the sum of the gradients once; Keras 3 adds the squares
  of the parts.
- A short batch counts by its share of `data.batch_size`; Keras makes a whole step of it
  ([training.md](training.md#a-step)).
- Workers do not wait for each other. Each clips its own gradients. A constraint is applied to the weights that a worker
  pulls, and its changes go back with the gradients: between two steps the weights on the servers may exceed it
  by one update. Evaluation and export apply it.
- `optimizer.deep` of the job file replaces the optimizer of `compile`, with its clipping and its schedule;
  `optimizer.schedule` is a factor of either. `optimizer.embedding` applies only to hash tables; clipping of `compile`
  applies to their gradients too.
- With clipping, the rows of each layer come to the worker, even where they could be pooled on the servers.
"""

if __name__ == "__main__":
    sys.stdout.write(page())
