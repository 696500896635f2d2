"""The section `model`."""

from typing import Annotated, Literal

from msgspec import Meta, field

from afo.job.embedding import Buckets, Embedding
from afo.job.section import PositiveInt, Section


class Wide(Section, frozen=True):
    """The linear part."""

    crosses: Annotated[tuple[tuple[str, ...], ...], Meta(description="Features crossed with each other.")] = ()
    cross_buckets: Annotated[
        Buckets | None, Meta(description="Hash buckets per cross. Left out: as `embedding.hash_buckets`.")
    ] = None


class Model(Section, frozen=True):
    """The model: `wide_deep` of Cheng et al. (2016), arXiv:1606.07792, or one of your own by `entry`."""

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
    parts: Annotated[Literal["both", "wide", "deep"], Meta(description="Train one part alone to compare.")] = "both"
    hidden_units: Annotated[tuple[PositiveInt, ...], Meta(min_length=1)] = (256, 128, 64)
    precision: Annotated[
        Literal["float32", "bfloat16"],
        Meta(
            description="What the hidden layers compute in; weights, embeddings and the loss are float32. "
            "`bfloat16` is faster where the processor multiplies it (AMX), and slower elsewhere."
        ),
    ] = "float32"
    embedding: Embedding = Embedding()
    wide: Wide = Wide()

    def __post_init__(self) -> None:
        if not self.entry:
            return
        usual = Model()
        ignored = [
            key for key in ("parts", "hidden_units", "precision", "wide") if getattr(self, key) != getattr(usual, key)
        ]
        ignored += [
            f"embedding.{key}"
            for key in ("dim", "hash_buckets")
            if getattr(self.embedding, key) != getattr(usual.embedding, key)
        ]
        if ignored:
            raise ValueError(
                f"`{ignored[0]}` is for `wide_deep` and would change nothing of `{self.entry}`; leave it out, and give "
                "the function of `entry` what it needs by `params`"
            )
        if self.embedding.features:
            raise ValueError(
                "`embedding.features` is for `wide_deep`; in `entry`'s model say it where the layer is made: "
                "`afo.layers.Embedding(..., filter=..., evict=..., pooling=...)`"
            )
