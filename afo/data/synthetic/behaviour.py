"""Synthetic behaviour data with a known answer: does a user click an item, given the items that he looked at before?

Items lie on a sphere, those of a category near each other, and every user is interested in a few categories, from which
most of his history comes. With the shown item's vector v, those of the history h_j, the item's and the user's effects:

    logit = bias + item + user + strength * (max over j of v·h_j - 1/2)

and a label is 1 with probability sigmoid(logit). So it is the one most similar item of the history that counts, which a
mean over the history hides and target attention finds. Every number is drawn from the seed. Ids begin at 1: 0 is what
a reader fills a history up with.
"""

from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from afo import storage
from afo.data.feature import Feature
from afo.data.io.example_batch import Column, encode_columns
from afo.data.io.tfrecord import RecordWriter
from afo.data.model_metrics import auc, log_loss
from afo.data.schema import Schema
from afo.data.synthetic.data_set import (
    check_counts,
    delete_answer,
    delete_other_parts,
    part_urls,
    read_answer,
    write_answer,
)
from afo.data.synthetic.teacher import sigmoid

LABEL = "click"
SAMPLE_ID = "sample_id"
HISTORY = ("hist_item_ids", "hist_category_ids")

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class BehaviourSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that determines the users and items. Standard deviations and `strength` are in log odds."""

    users: int = 2_000
    categories: int = 40
    items_per_category: int = 25
    interests: int = 3
    #: Most items of a history; the least is one.
    longest: int = 20
    latent_dim: int = 8
    #: How far items lie from their category's centre, where two centres are about sqrt(2) apart.
    spread: float = 0.5
    bias: float = -1.2
    item_std: float = 0.5
    user_std: float = 0.3
    strength: float = 6.0
    seed: int = 1


class BehaviourParameters(msgspec.Struct, frozen=True, kw_only=True):
    """All that determines a data set, byte for byte."""

    train: int = 100_000
    eval: int = 30_000
    train_files: int = 8
    eval_files: int = 2
    spec: BehaviourSpec = BehaviourSpec()

    def __post_init__(self) -> None:
        check_counts("train", self.train, self.train_files)
        check_counts("eval", self.eval, self.eval_files)


class BehaviourAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the true probabilities reach on the evaluation files: the best that can be expected of a model."""

    auc: float
    log_loss: float
    parameters: BehaviourParameters


class Impressions(msgspec.Struct, frozen=True):
    """n samples: ids [n], `history` [n, longest] of item ids with zeros behind the first `length`, label, logit."""

    user: Ints
    item: Ints
    history: Ints
    length: Ints
    label: Ints
    logit: Floats


class Behaviour:
    """The users and items of one specification; `draw` makes samples of them."""

    def __init__(self, spec: BehaviourSpec) -> None:
        self.spec = spec
        rng = np.random.default_rng([spec.seed, 0])
        items = spec.categories * spec.items_per_category
        centres = _unit(rng.standard_normal((spec.categories, spec.latent_dim)))
        away = rng.standard_normal((items, spec.latent_dim)) * spec.spread / np.sqrt(spec.latent_dim)
        self._vectors = _unit(centres.repeat(spec.items_per_category, axis=0) + away)
        self._item_effect = spec.item_std * rng.standard_normal(items)
        self._user_effect = spec.user_std * rng.standard_normal(spec.users)
        self._interests = rng.integers(spec.categories, size=(spec.users, spec.interests))
        weight = 1.0 / np.sqrt(np.arange(1, spec.items_per_category + 1))
        self._rank_cdf = np.cumsum(weight / weight.sum())

    def draw(self, count: int, rng: np.random.Generator) -> Impressions:
        """`count` independent samples, determined by the state of `rng`."""
        spec = self.spec
        user = rng.integers(spec.users, size=count)
        length = rng.integers(1, spec.longest + 1, size=count)
        history = self._items(user[:, None], 0.8, (count, spec.longest), rng)
        item = self._items(user[:, None], 0.5, (count, 1), rng)[:, 0]
        there = np.arange(spec.longest) < length[:, None]
        logit = self._logit(user, item, history, there)
        return Impressions(
            user=user + 1,
            item=item + 1,
            history=(history + 1) * there,
            length=length,
            label=(rng.random(count) < sigmoid(logit)).astype(np.int64),
            logit=logit,
        )

    def category(self, item: Ints) -> Ints:
        """Categories of item ids, both from 1; of 0 it is 0."""
        return (item + self.spec.items_per_category - 1) // self.spec.items_per_category

    def _items(self, user: Ints, interested: float, shape: tuple[int, int], rng: np.random.Generator) -> Ints:
        """Items from 0, with probability `interested` of a category that the user likes."""
        spec = self.spec
        liked = self._interests[user, rng.integers(spec.interests, size=shape)]
        category = np.where(rng.random(shape) < interested, liked, rng.integers(spec.categories, size=shape))
        return category * spec.items_per_category + np.searchsorted(self._rank_cdf, rng.random(shape), side="right")

    def _logit(self, user: Ints, item: Ints, history: Ints, there: NDArray[np.bool_]) -> Floats:
        similarity = np.einsum("nd,nld->nl", self._vectors[item], self._vectors[history])
        nearest = np.where(there, similarity, -1.0).max(axis=1)
        effects = self._item_effect[item] + self._user_effect[user]
        logit: Floats = self.spec.bias + effects + self.spec.strength * (nearest - 0.5)
        return logit


def schema_of(spec: BehaviourSpec) -> Schema:
    """The schema of the records."""
    ids = (Feature(name=name, kind="categorical") for name in ("user_id", "item_id", "category_id"))
    history = (Feature(name=name, kind="categorical", max_length=spec.longest) for name in HISTORY)
    return Schema(features=(*ids, *history), label=LABEL, sample_id=SAMPLE_ID)


def write_behaviour(url: str, parameters: BehaviourParameters) -> BehaviourAnswer:
    """Write `train/part-*`, `eval/part-*`, `schema.yaml` and, last, `answer.json` into the directory `url`.

    A data set of the same parameters that is complete there stays. Other part files are deleted. Raises DataError.
    """
    known = read_answer(url, BehaviourAnswer)
    if known is not None and known.parameters == parameters:
        return known
    delete_answer(url)
    storage.write_bytes(storage.join(url, "schema.yaml"), schema_of(parameters.spec).to_yaml().encode())
    behaviour = Behaviour(parameters.spec)
    _write_part(behaviour, storage.join(url, "train"), parameters.train, parameters.train_files, first=0)
    shown = _write_part(
        behaviour, storage.join(url, "eval"), parameters.eval, parameters.eval_files, first=parameters.train
    )
    label = np.concatenate([impressions.label for impressions in shown])
    probability = sigmoid(np.concatenate([impressions.logit for impressions in shown]))
    answer = BehaviourAnswer(auc=auc(label, probability), log_loss=log_loss(label, probability), parameters=parameters)
    write_answer(url, answer)
    return answer


def _write_part(behaviour: Behaviour, url: str, records: int, files: int, first: int) -> list[Impressions]:
    """Write one of the two parts, its sample ids from `first`; a random stream for each file."""
    urls = part_urls(url, files, "none")
    delete_other_parts(url, urls)
    written = []
    for number, target in enumerate(urls):
        start, stop = (first + records * bound // files for bound in (number, number + 1))
        shown = behaviour.draw(stop - start, np.random.default_rng([behaviour.spec.seed, 1, start]))
        with RecordWriter(target, "none") as writer:
            writer.write_all(_records(behaviour, shown, start))
        written.append(shown)
    return written


def _records(behaviour: Behaviour, shown: Impressions, first: int) -> list[bytes]:
    """Serialized records in the order of the samples; those with histories of one length are encoded together."""
    records = [b""] * len(shown.label)
    for length, places in _by_length(shown.length):
        history = shown.history[places, :length]
        columns: dict[str, Column] = {
            "user_id": shown.user[places],
            "item_id": shown.item[places],
            "category_id": behaviour.category(shown.item[places]),
            "hist_item_ids": history,
            "hist_category_ids": behaviour.category(history),
            LABEL: shown.label[places],
            SAMPLE_ID: first + places,
        }
        for place, record in zip(places.tolist(), encode_columns(columns), strict=True):
            records[place] = record
    return records


def _by_length(length: Ints) -> Iterator[tuple[int, Ints]]:
    for size in np.unique(length).tolist():
        yield size, np.flatnonzero(length == size)


def _unit(vectors: Floats) -> Floats:
    """Vectors [n, d] scaled to length 1."""
    unit: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit
