"""Rollout of versions: canaries, shares of labels, and mirrored requests."""

import re
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, field

from afo.formats.units import Duration
from afo.job.section import PositiveInt, Section

#: A day, as the server has it.
_MOST_SECONDS = 86400
#: A header of HTTP that is a key of gRPC's metadata, too.
_HEADER = re.compile(r"[a-z0-9_-]{1,128}")
_NO_HEADER = re.compile(r"authorization|.*-bin")
Percent = Annotated[float, Meta(gt=0, le=100)]


def check_time(key: str, seconds: float, least: float) -> None:
    """Raises ValueError for a time that a server cannot have."""
    if not least <= seconds <= _MOST_SECONDS:
        raise ValueError(f"`{key}` is {seconds} s; allowed: {least} s to 1d")


def _check_header(name: str) -> None:
    if name and (not _HEADER.fullmatch(name) or _NO_HEADER.fullmatch(name)):
        raise ValueError(
            f"`hash_header` is {name!r}; allowed: small letters, digits, `-` and `_`, but neither `authorization` nor "
            "a name that ends in `-bin`"
        )


class Gate(Section, frozen=True):
    """Bounds that a canary is held to, beside the version that answers the others."""

    max_error_rate: Annotated[float, Meta(ge=0, le=1, description="Share of requests that fail by the server.")] = 0.01
    max_latency_ratio: Annotated[float, Meta(ge=0, le=1e6, description="Of the medians of computing.")] = 1.5
    max_score_psi: Annotated[float, Meta(ge=0.001, le=1e6, description="Population stability index of the scores.")] = (
        0.2
    )
    min_requests: Annotated[PositiveInt, Meta(description="Answered by both before they are compared.")] = 200


class Canary(Section, frozen=True):
    """A new version takes a share of the requests, and all of them after a while in which the gate held."""

    traffic_percent: Annotated[float, Meta(gt=0, lt=100, description="That a new version gets at first.")] = 5
    duration: Annotated[Duration, Meta(description="Until it gets all.")] = Duration(600)
    hash_header: Annotated[
        str, Meta(description="Header by whose value a user stays with a version; left out: by chance.")
    ] = ""
    gate: Gate = Gate()

    def __post_init__(self) -> None:
        check_time("duration", self.duration, 0.001)
        _check_header(self.hash_header)


class Mirror(Section, frozen=True):
    """A version that is asked too, on spare capacity; nobody gets its answers."""

    label: Annotated[str, Meta(description="Of `version_labels`.")]
    percent: Annotated[Percent, Meta(description="Of the requests that name no version.")]


class Traffic(Section, frozen=True):
    """Shares of versions that are served side by side."""

    hash_header: Annotated[
        str, Meta(description="Header by whose value a user stays with a version; left out: by chance.")
    ] = ""
    split: Annotated[
        dict[str, Percent], Meta(description="Percent of labels, 100 together: `{stable: 90, challenger: 10}`.")
    ] = field(default_factory=dict)
    mirror: Mirror | None = None

    def __post_init__(self) -> None:
        _check_header(self.hash_header)
        if not self.split and self.mirror is None:
            raise ValueError("`traffic` has neither `split` nor `mirror`; set one of them, or leave it out")
        if self.split and abs(sum(self.split.values()) - 100) > 1e-6:
            raise ValueError(f"`split` has {sum(self.split.values()):g} percent in all; its shares sum to 100")


def check_rollout(canary: Canary | None, traffic: Traffic | None, labels: Mapping[str, int], latest: bool) -> None:
    """Raises ValueError for what a model cannot have together."""
    if canary is not None and not latest:
        raise ValueError("`canary` is of new versions, which `model_version_policy` takes up as `latest` alone")
    if canary is not None and traffic is not None and traffic.split:
        raise ValueError("`canary` and `traffic.split` are both there; a split says itself what a new version gets")
    named = [*traffic.split, *([traffic.mirror.label] if traffic.mirror else [])] if traffic else []
    for label in named:
        if label not in labels:
            raise ValueError(f"`traffic` has {label!r}, which is no label of `version_labels`")
