"""Status line of a running job: rewritten on a terminal, else a plain line on a change and every 30 seconds."""

import math
import shutil
import sys
import time

from afo_client.jobs.view import JobView
from afo_client.terminal.console import quality_text, say, say_over, span_text, wait_text, without_control

EVERY_S = 30.0
#: Characters of the bar.
_BAR = 10


def status_line(view: JobView) -> str:
    """State, containers, progress, step, samples/s, input wait, loss, quality; what is not known yet is left out."""
    up, wanted = view.containers
    parts = [view.state, f"containers {up}/{wanted}" if wanted else ""]
    if view.step:
        parts += [
            progress_text(view),
            f"step {view.step:,}",
            f"{view.samples_per_s:,.0f} samples/s",
            wait_text(view.input_wait, view.input_bound),
        ]
    if view.splits_total:
        parts.append(f"files {view.splits_done}/{view.splits_total}")
    parts.append(f"loss {view.loss:.4f}" if view.loss is not None else "")
    parts.append(quality_text(view.metrics))
    parts.append(f"restarts {view.restarts}" if view.restarts else "")
    parts.append(f"generation {view.generation}" if view.generation > 1 else "")
    parts.append(without_control(view.message.partition("\n")[0]))
    return " · ".join(part for part in parts if part)


def progress_text(view: JobView) -> str:
    """`[=====>    ] 52%, 4 min left`; '' where nobody knows how many steps there will be."""
    if view.progress is None or view.ended:
        return ""
    share = min(1.0, max(0.0, view.progress))  # the log of a job may say any number
    done = math.floor(_BAR * share)
    bar = ("=" * done + ">" * (done < _BAR)).ljust(_BAR)
    left = f", {_rough(view.seconds_left)} left" if view.seconds_left and share < 1 else ""
    return f"[{bar}] {math.floor(100 * share)}%{left}"


def _rough(seconds: float) -> str:
    """A forecast has no seconds among its minutes."""
    return span_text(60 * math.ceil(seconds / 60)).removesuffix(" 0 s") if seconds >= 60 else f"{math.ceil(seconds)} s"


class LiveLine:
    """Shows one view after another on stderr."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._width = 0
        self._shown_at = 0.0
        self._key: object = None

    def show(self, view: JobView) -> None:
        """Show where the job stands now."""
        text = status_line(view)
        if self._terminal:
            text = text[: max(20, shutil.get_terminal_size().columns - 1)]
            say_over(text, self._width)
            self._width = len(text)
            return
        key = (view.state, view.containers, view.restarts, view.generation, view.metrics.get("auc"))
        if key != self._key or time.monotonic() - self._shown_at >= EVERY_S:
            self._key, self._shown_at = key, time.monotonic()
            say(text)

    def clear(self) -> None:
        """Leave the line free for other words."""
        if self._terminal and self._width:
            say_over("", self._width)
            self._width = 0
