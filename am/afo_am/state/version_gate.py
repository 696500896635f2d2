"""The quality gate over a rolling window of evaluations: which checkpoint may leave. Pure.

The window is made of `Evaluated` events alone, so a new Application Master has it as the one before did, and it knows
nothing of the chief. It begins empty; until `export.require_window` evaluations are there it holds fewer. What was
measured before the job went back to an older checkpoint stays in it.
"""

from dataclasses import dataclass

from afo.events import types as ev
from afo.job import Export
from afo.protocol import export_gate

#: So many checkpoints that passed are known by their metrics, the newest ones: more do not pass during an export.
_MOST_PASSED = 100
#: A checkpoint's evaluation, the last one, and those before it.
Window = tuple[ev.Evaluated, ...]


@dataclass
class VersionGate:
    """Part of the job's state; changes by events alone. Of a job without versions each window has one evaluation."""

    export: Export
    window: Window = ()
    #: The newest checkpoint that passed when it was measured, with its window.
    passing: Window = ()
    #: Those that passed since the last version: a chief may turn out to have exported any before it was killed.
    passed: tuple[ev.Evaluated, ...] = ()
    #: The version exported last.
    exported: ev.VersionExported | None = None

    def take(self, event: ev.Evaluated) -> None:
        """A checkpoint was measured; one that is measured again, by a new evaluator, counts once."""
        others = [each for each in self.window if each.manifest != event.manifest]
        self.window = (*others, event)[-self.export.require_window :]
        if self.export.gates_versions and not export_gate.refusals(self.checks(self.window)):
            self.passing = self.window
            self.passed = (*self.passed, event)[-_MOST_PASSED:]
        else:
            self._forget(event.manifest)

    def note_version(self, event: ev.VersionExported) -> None:
        """Later ones are compared with it."""
        self.exported = event
        self.passed = tuple(each for each in self.passed if each.step > event.step)

    @property
    def exported_version(self) -> int:
        """The last one that the chief told of; 0: none."""
        return self.exported.version if self.exported else 0

    def is_exported(self, manifest: str) -> bool:
        """Whether the version exported last is of this checkpoint."""
        return self.exported is not None and self.exported.manifest == manifest

    def note_withheld(self, event: ev.VersionWithheld) -> None:
        """It passed when it was measured, and does no more."""
        self._forget(event.manifest)

    def _forget(self, manifest: str) -> None:
        if self.passing and self.passing[-1].manifest == manifest:
            self.passing = ()

    @property
    def candidate(self) -> Window | None:
        """The newest checkpoint that passed, unless it is exported."""
        if not self.passing or self.is_exported(self.passing[-1].manifest):
            return None
        return self.passing

    def checks(self, window: Window) -> tuple[export_gate.Check, ...]:
        """What became of each bound of `export.require`, for the last checkpoint of a window."""
        before = self.exported
        exported = before.metrics if before and before.manifest != window[-1].manifest else {}
        *earlier, own = (export_gate.add_fall_since_version(each.metrics, exported) for each in window)
        return export_gate.check(self.export.require, own, window[-1].falls, earlier)

    def withheld(self, window: Window) -> ev.VersionWithheld | None:
        """That the last checkpoint of a window may not be exported, and why; None: it may."""
        refused = tuple(each for each in self.checks(window) if not each.passed)
        if not refused:
            return None
        since = self.exported.version if self.exported else None
        return ev.VersionWithheld(step=window[-1].step, manifest=window[-1].manifest, checks=refused, since=since)
