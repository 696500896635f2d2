"""What fake parameter servers hold: which files were applied, and what checkpoints have of that."""

from collections.abc import Mapping
from dataclasses import dataclass, field

#: A row of the file list, and an epoch.
Pass = tuple[int, int]
#: A process of a parameter server, another one for every start.
Process = tuple[str, int, int]


@dataclass
class FakeModel:
    """The variables of a job, reduced to what was applied to them."""

    #: How often the records of each pass were applied in the surviving history.
    applied: dict[Pass, int] = field(default_factory=dict)
    #: The same by manifest; '' is the beginning.
    saved: dict[str, dict[Pass, int]] = field(default_factory=lambda: {"": {}})
    #: Processes of the parameter servers that the chief has given their variables, by index.
    holders: dict[int, Process] = field(default_factory=dict)
    #: Manifests that the chief cannot read.
    damaged: set[str] = field(default_factory=set)
    #: Samples that the chief found to be lost, at each partial recovery.
    lost_samples: list[int] = field(default_factory=list)

    def apply(self, row: int, epoch: int, resume: bool) -> None:
        """Records and their position reach the parameter server in one step: what is resumed may be there already."""
        if not (resume and (row, epoch) in self.applied):
            self.applied[row, epoch] = self.applied.get((row, epoch), 0) + 1

    def save(self) -> str:
        """A checkpoint of what is applied; returns its manifest."""
        manifest = f"manifest-{len(self.saved)}"
        self.saved[manifest] = dict(self.applied)
        return manifest

    def newest_complete(self, manifest: str) -> str:
        """What the chief takes in place of `manifest`: the newest up to it that it can read."""
        saved = list(self.saved)
        return next(each for each in reversed(saved[: saved.index(manifest) + 1]) if each not in self.damaged)

    def restore(self, manifest: str, servers: Mapping[int, Process], kept: tuple[int, ...]) -> None:
        """The chief gives all parameter servers their variables, or those that came back without them."""
        if kept:
            assert all(servers[index] == self.holders[index] for index in kept), "a kept server was started anew"
            self.lost_samples.append(_samples(self.applied) - _samples(self.saved[manifest]))
        else:
            self.applied = dict(self.saved[manifest])
        self.holders = dict(servers)

    def positions(self) -> tuple[tuple[int, int, int, int], ...]:
        """How far each file was read: row, newest epoch, and that pass's count and xor."""
        newest: dict[int, int] = {}
        for row, epoch in self.applied:
            newest[row] = max(epoch, newest.get(row, 0))
        return tuple((row, epoch, *read(row, epoch)) for row, epoch in newest.items())


def read(row: int, epoch: int) -> tuple[int, int]:
    """Count and xor of a whole file's records."""
    return 10 + row, row * 7 + epoch


def _samples(applied: dict[Pass, int]) -> int:
    return sum(read(*key)[0] * times for key, times in applied.items())
