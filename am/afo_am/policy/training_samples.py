"""Samples of the training's counters for the event log: often at first, for the curves of short jobs. Pure."""

from afo.events import types as ev
from afo_am.policy.progress import progress_of, seconds_left
from afo_am.state import commands as c
from afo_am.state.context import Context

#: Seconds between two `Sample` events.
FIRST_S, EVERY_S = 2.0, 30.0


class TrainingSamples:
    """Writes `Sample` events."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._at = context.now
        #: Seconds from the last one to the next.
        self._pause = 0.0
        #: Samples in the last event, be it of an earlier incarnation.
        self.told = 0
        context.listeners.append(self._hear)

    def _hear(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.Sample):
            self.told = event.samples

    def look(self) -> None:
        """Once in each tick."""
        context, rates = self._context, self._context.rates
        if rates.samples and context.state.ready and context.now - self._at >= self._pause:
            self._at = context.now
            self._pause = min(EVERY_S, max(FIRST_S, 1.2 * self._pause))
            self._write(rates.samples_per_s(context.now), seconds_left(context.state, rates, context.now))
            context.command(c.ShowProgress(progress_of(context.state, rates) or 0.0))

    def last(self) -> None:
        """Keep how the training stood when the job ended: a short one would else be known by its first steps."""
        if self._context.rates.samples > self.told:
            self._write(self._context.rates.last_samples_per_s, None)

    def _write(self, samples_per_s: float, left: float | None) -> None:
        context, rates = self._context, self._context.rates
        context.record(
            ev.Sample(
                step=rates.step, samples=rates.samples, samples_per_s=samples_per_s, input_wait=rates.input_wait,
                loss=rates.loss, staleness=rates.staleness, progress=progress_of(context.state, rates),
                seconds_left=left,
            )
        )  # fmt: skip
