"""The section `data`."""

from typing import Annotated, Literal

from msgspec import Meta, field

from afo.formats.units import Memory
from afo.job import combinations
from afo.job.combinations import check_combinations
from afo.job.section import MOST_INT, PositiveInt, Section


class Shuffle(Section, frozen=True):
    """How training records are mixed: within a split by the seed alone, across splits as workers lease them."""

    files: Annotated[bool, Meta(description="Hand files out in random order.")] = True
    buffer: Annotated[
        int, Meta(ge=0, le=MOST_INT, description="Records of a split mixed in memory; 0: in file order.")
    ] = 10_000
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] = 1


class NegativeSampling(Section, frozen=True):
    """Keeps a part of the samples whose labels are all 0, selected by sample id and `shuffle.seed` alone."""

    keep: Annotated[float, Meta(gt=0, le=1, description="Share of the negatives to train on.")]
    reweight: Annotated[
        bool, Meta(description="Give the kept ones the weight `1 / keep`, so that probabilities stay calibrated.")
    ] = True


class Data(Section, frozen=True):
    """The records: TFRecord files of `tf.Example`, or Parquet files."""

    train: Annotated[tuple[str, ...], Meta(description="Globs of training files; date variables allowed.")] = ()
    schema: Annotated[
        str, Meta(description="Feature schema; relative to this file. Left out: inferred from the first records.")
    ] = ""
    format: Annotated[
        Literal["auto", "tfrecord", "parquet"], Meta(description="`auto`: Parquet where the name ends in `.parquet`.")
    ] = "auto"
    wait_for: Annotated[
        str, Meta(description="Marker that every directory of `train` and `eval` must hold first, e.g. `_SUCCESS`.")
    ] = ""
    eval: Annotated[tuple[str, ...], Meta(description="Globs of evaluation files.")] = ()
    split_size: Annotated[
        Memory | None,
        Meta(
            description="Cut larger files into splits of about this size, e.g. `128 MiB`, by their indexes (`afo data"
            " index`). Compressed files stay whole; others without an index are an error. Left out: a file is a split."
        ),
    ] = None
    compression: Literal["auto", "none", "gzip", "zlib"] = "auto"
    label: Annotated[
        str | tuple[str, ...] | None,
        Meta(
            description="Feature that holds 0 or 1; several for a model of several outputs. Left out: the schema's"
            " `label`, or `label`."
        ),
    ] = None
    weight: Annotated[str | None, Meta(description="Feature that holds a sample's weight.")] = None
    class_weight: Annotated[
        dict[Literal["0", "1"], Annotated[float, Meta(gt=0)]],
        Meta(description="Weight of samples by label, e.g. `{1: 4}`, as in Keras' `fit`; left out: 1. It applies only "
             "in training, and biases predictions: the model no longer learns the rate of clicks."),
    ] = field(default_factory=dict)  # fmt: skip
    sample_id: Annotated[
        str | None,
        Meta(
            description="Integer feature that identifies a sample. Left out: the schema's `sample_id`, or the sample's"
            " bytes."
        ),
    ] = None
    batch_size: Annotated[
        PositiveInt, Meta(description="Samples in a step; a shorter batch moves the model by its share of this.")
    ] = 1024
    epochs: PositiveInt = 1
    shuffle: Shuffle = Shuffle()
    max_bad_records: Annotated[float, Meta(ge=0, lt=1, description="Share of corrupt records to skip.")] = 0.0
    negative_sampling: NegativeSampling | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels' names, one or more."""
        if self.label is None:
            return ("label",)
        return (self.label,) if isinstance(self.label, str) else self.label

    @property
    def weighs_samples(self) -> bool:
        """Whether samples may have weights other than 1."""
        return self.weight is not None or self.negative_sampling is not None or bool(self.class_weight)

    def __post_init__(self) -> None:
        check_combinations(self, combinations.DATA)
        if not self.labels or len(set(self.labels)) < len(self.labels):
            raise ValueError(f"`label` names at least one feature, each once, not {list(self.labels)}")
        if set(self.wait_for) & set("/*?[]{}\\"):
            raise ValueError(f"`wait_for` is the name of a file, e.g. _SUCCESS, not {self.wait_for!r}")
