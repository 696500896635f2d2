"""The section `model`."""

from typing import Annotated, Literal

from msgspec import Meta, field

from afo.job import combinations
from afo.job.combinations import check_combinations
from afo.job.embedding import Buckets, Embedding
from afo.job.section import PositiveInt, Section


class Wide(Section, frozen=True):
    """The linear part."""

    crosses: Annotated[tuple[tuple[str, ...], ...], Meta(description="Features crossed with each other.")] = ()
    cross_buckets: Annotated[
        Buckets | None, Meta(description="Hash buckets per cross. Left out: as `embedding.hash_buckets`.")
    ] = None


class Model(Section, frozen=True):
    """The model: `wide_deep` of Cheng et al. (2016), arXiv:1606.07792, or your own with `entry`."""

    kind: Annotated[Literal["wide_deep", "entry"], Meta(description="`entry` is implied by `entry`.")] = "wide_deep"
    entry: Annotated[
        str,
        Meta(description="`my_ctr.py:build`, a function that returns a Keras 3 model or a `tf.Module`; the file is "
             "relative to this one."),
    ] = ""  # fmt: skip
    params: Annotated[
        dict[str, str | int | float | bool], Meta(description="Keyword arguments of the function in `entry`.")
    ] = field(default_factory=dict)
    from_logits: Annotated[
        bool, Meta(description="The outputs of `entry`'s model are log odds, not probabilities.")
    ] = False
    #: Of `wide_deep`:
    parts: Annotated[Literal["both", "wide", "deep"], Meta(description="Train only one part, for comparison.")] = "both"
    hidden_units: Annotated[tuple[PositiveInt, ...], Meta(min_length=1)] = (256, 128, 64)
    precision: Annotated[
        Literal["float32", "bfloat16"],
        Meta(
            description="Format in which the hidden layers compute; weights, embeddings and the loss are float32. "
            "`bfloat16` is faster where the processor supports it (AMX), and slower elsewhere."
        ),
    ] = "float32"
    embedding: Embedding = Embedding()
    wide: Wide = Wide()

    def __post_init__(self) -> None:
        check_combinations(self, combinations.MODEL)
