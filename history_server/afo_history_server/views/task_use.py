"""Resource usage of each attempt over its time: small drawings for the table of tasks. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from afo_history_server.model.job_history import Attempt
from afo_history_server.model.text import metric, size

_WIDTH, _HEIGHT, _MIB = 80, 18, 1 << 20


class Spark(Struct, frozen=True, kw_only=True):
    """A line without axes, from nothing at the bottom to what was asked for at the top."""

    path: str
    text: str
    width: int = _WIDTH
    height: int = _HEIGHT


def memory_line(attempt: Attempt) -> Spark | None:
    """Memory against what was asked for; None with too little to draw."""
    values = [(point.time, float(point.rss)) for point in attempt.use]
    words = f"{size(values[-1][1])} at last, at most {size(attempt.peak_rss)}" if values else ""
    return _spark(values, attempt.memory * _MIB, words)


def cores_line(attempt: Attempt) -> Spark | None:
    """Cores in use against those asked for; None with too little to draw."""
    values = [(point.time, point.cores) for point in attempt.use if point.cores is not None]
    words = f"{metric(values[-1][1])} cores at last" if values else ""
    return _spark(values, attempt.vcores, words)


def cores_of(attempt: Attempt) -> float | None:
    """Cores in use: over its whole time once it has ended, else at last; None where that is not known."""
    ran = attempt.ended - attempt.registered
    if attempt.ended and attempt.registered and attempt.cpu_s and ran > 0:
        return attempt.cpu_s / ran
    return next((point.cores for point in reversed(attempt.use) if point.cores is not None), None)


def _spark(values: Sequence[tuple[float, float]], asked: float, text: str) -> Spark | None:
    if len(values) < 2 or values[-1][0] <= values[0][0]:
        return None
    first, span = values[0][0], values[-1][0] - values[0][0]
    top = max(asked, *(value for _, value in values)) or 1.0
    places = (
        f"{1 + (time - first) / span * (_WIDTH - 2):.1f} {_HEIGHT - 1 - value / top * (_HEIGHT - 2):.1f}"
        for time, value in values
    )
    return Spark(path="M" + " L".join(places), text=text)
