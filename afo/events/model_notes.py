"""Notes on how a model came about, out of the events that say it. Pure."""

from dataclasses import dataclass, field

from afo.events import types as ev

#: Parts that are named one by one; the event has all of them.
_NAMED = 8


#: A log may name any number of them.
MOST_SPLITS = 200_000


@dataclass
class PassComparison:
    """Passes over the same file, each of which applies the same records. Of `MOST_SPLITS` files at most."""

    #: Of each split, its first pass: count, xor and unread.
    _first: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    _differing: int = 0
    _example: str = ""

    def take(self, event: ev.SplitDone) -> None:
        """The next pass."""
        if len(self._first) >= MOST_SPLITS and event.split not in self._first:
            return
        applied = event.count, event.xor, event.unread
        first = self._first.setdefault(event.split, applied)
        if applied == first:
            return
        self._differing += 1
        words = f"split {event.split} in epoch {event.epoch + 1}, {event.count:,} records after {first[0]:,}"
        self._example = self._example or words

    @property
    def sentences(self) -> tuple[str, ...]:
        """One where some differ."""
        if not self._differing:
            return ()
        were = f"{self._differing:,} passes over files" if self._differing > 1 else "a pass over a file"
        return (
            f"{were} applied other records than an earlier one ({self._example}): two workers read the file at a time, "
            "or it was changed; `afo check` compares what was applied with the files",
        )


@dataclass
class WithheldVersions:
    """Checkpoints that became no version since the last one that did."""

    number: int = 0
    last: ev.VersionWithheld | None = None

    def take(self, event: ev.AnyEvent) -> None:
        """The next one, or that a version was written, or that it is decided what is at the end."""
        if isinstance(event, ev.VersionWithheld):
            self.number += self.last is None or self.last.manifest != event.manifest
            self.last = event
        elif isinstance(event, ev.VersionExported | ev.ExportDecided):
            self.number, self.last = 0, None

    @property
    def sentences(self) -> tuple[str, ...]:
        """One while there are any."""
        if self.last is None:
            return ()
        were = f"{self.number:,} checkpoints in a row, the last" if self.number > 1 else "the one"
        reasons = "; ".join(check.text for check in self.last.checks)
        return (f"no version is exported of {were} of step {self.last.step:,}: {reasons}",)


@dataclass
class ExportedVersions:
    """Versions of the model that a job has exported."""

    number: int = 0
    last: ev.VersionExported | None = None

    def take(self, event: ev.AnyEvent) -> None:
        """The next one."""
        if isinstance(event, ev.VersionExported):
            self.number += 1
            self.last = event

    @property
    def sentences(self) -> tuple[str, ...]:
        """One once there are any."""
        if self.last is None:
            return ()
        took = "" if self.last.seconds is None else f" in {self.last.seconds:.1f} s"
        what = f"{self.last.version} of step {self.last.step:,}, {self.last.bytes / 2**20:,.1f} MiB{took}"
        were = f"{self.number:,} versions are exported, the last one" if self.number > 1 else "one version is exported"
        return (f"{were}: {what}",)


@dataclass
class Notes:
    """What was said of a job so far, each sentence once: what is said again after a restart is no news."""

    _said: dict[str, None] = field(default_factory=dict)
    _not_evaluated: int = 0
    _exported: ExportedVersions = field(default_factory=ExportedVersions)
    _withheld: WithheldVersions = field(default_factory=WithheldVersions)
    _passes: PassComparison = field(default_factory=PassComparison)

    def take(self, event: ev.AnyEvent) -> None:
        """Add an event, in their order."""
        self._said |= dict.fromkeys(notes_of(event))
        if isinstance(event, ev.Evaluated):
            self._not_evaluated += event.passed_over
        elif isinstance(event, ev.SplitDone):
            self._passes.take(event)
        self._exported.take(event)
        self._withheld.take(event)

    @property
    def sentences(self) -> tuple[str, ...]:
        """In the order in which they became known; what still grows comes last."""
        versions = (*self._exported.sentences, *self._withheld.sentences)
        return (*self._said, *self._passes.sentences, *not_evaluated(self._not_evaluated), *versions)


def notes_of(event: ev.AnyEvent) -> tuple[str, ...]:
    """Sentences, or none."""
    match event:
        case ev.WarmStarted():
            return _warm_start(event)
        case ev.BadRecordsExceeded():
            share = f"{event.bad:,} of {event.records:,} records are bad, and {event.allowed:g} of them may be"
            return (f"{share}; one of them: {event.place}",)
        case ev.StoppedEarly():
            return (
                f"stopped early at step {event.step:,}: {event.evaluations} evaluations brought no better "
                f"{event.metric} than {event.best:.6g}",
            )
        case ev.ExportDecided():
            return (*_best(event), *_gate(event))
        case ev.VariablesReady():
            return (
                *(f"restore: passed over: {checkpoint}" for checkpoint in event.passed_over),
                *_partly_restored(event),
            )
        case _:
            return ()


def not_evaluated(checkpoints: int) -> tuple[str, ...]:
    """Of so many checkpoints that were due."""
    if not checkpoints:
        return ()
    were = f"{checkpoints:,} checkpoints were" if checkpoints > 1 else "a checkpoint was"
    return (
        f"{were} not evaluated, as newer ones came while the evaluator was busy: a larger `train.eval_every` or fewer "
        "evaluation files give every checkpoint its evaluation",
    )


def _best(event: ev.ExportDecided) -> tuple[str, ...]:
    if not event.metric or not event.allowed:
        return ()
    return (
        f"the checkpoint of step {event.step:,} is exported: its {event.metric} is the best, {event.value:.6g}; it was "
        f"{event.last_value:.6g} at the end, step {event.last_step:,}",
    )


def _gate(event: ev.ExportDecided) -> tuple[str, ...]:
    if not event.checks:
        return ()
    word = "passed" if event.allowed else "refused"
    return (f"quality gate {word} (step {event.step:,}): {'; '.join(check.text for check in event.checks)}",)


def _partly_restored(event: ev.VariablesReady) -> tuple[str, ...]:
    if not event.kept:
        return ()
    what = "what they" if len(event.kept) > 1 else "what it"
    return (
        f"generation {event.generation}: only what was lost was restored, out of {event.restored}; "
        f"{_list_names(tuple(f'ps:{index}' for index in event.kept))} kept {what} held; "
        f"the updates of {event.lost_samples:,} samples are missing in the restored part",
    )


def _warm_start(event: ev.WarmStarted) -> tuple[str, ...]:
    passed_over = tuple(f"warm start: passed over: {checkpoint}" for checkpoint in event.passed_over)
    if not event.source:
        return (*passed_over, "no warm start: no source holds a checkpoint, the model began anew")
    partly = "" if event.source.endswith("-final.json") else ", saved before the end of its job,"
    lines = [f"warm start from {event.source}{partly} at step {event.step:,}: {len(event.kept)} parts kept"]
    lines += [f"made new: {_list_names(event.made_new)}"] if event.made_new else []
    lines += [f"dropped: {_list_names(event.dropped)}"] if event.dropped else []
    return (*passed_over, "; ".join(lines))


def _list_names(parts: tuple[str, ...]) -> str:
    more = len(parts) - _NAMED
    return ", ".join(parts[:_NAMED]) + (f" and {more} more" if more > 0 else "")
