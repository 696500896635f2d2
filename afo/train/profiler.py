"""Profiler of this process, when somebody wants a profile (`afo profile`)."""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from afo.errors import NotFound, SpecError
from afo.formats import json_file
from afo.protocol.profile_request import DONE, FOLDER, OPERATORS, WANTED, Done, Operator, Operators, Wanted

_POLL_S = 0.5
#: What a profile without a whole step may last beyond its seconds: the process may be saving, or wait for files.
_LONGER_S = 30.0
#: Of two steps that end in a profile the second one is whole.
_WHOLE = 2

#: How many steps the process has ended; None of one that makes none.
Steps = Callable[[], int] | None
#: Kinds of operators that are kept.
_HOTTEST = 50
#: `node:Kind`, as TensorFlow's executors name what they run; other names are those of its own functions.
_KIND = re.compile(r"[^: ]+:(\w+)")


def profile_on_request(work_dir: str, steps: Steps = None) -> None:
    """Have this process do so until its end, in a thread that costs a look at a file twice a second."""
    threading.Thread(target=_answer, args=(Path(work_dir), steps), name="profiler", daemon=True).start()


def _answer(folder: Path, steps: Steps) -> None:
    answered = 0
    while True:
        wanted = _read_request(folder)
        if wanted is not None and wanted.number != answered:
            answered = wanted.number
            json_file.write_private(folder / DONE, _take_profile(folder, wanted, steps))
        time.sleep(_POLL_S)


def _read_request(folder: Path) -> Wanted | None:
    try:
        return json_file.read(folder / WANTED, Wanted)
    except (NotFound, SpecError):
        return None


def _take_profile(folder: Path, wanted: Wanted, steps: Steps) -> Done:
    place = folder / FOLDER / str(wanted.number)
    try:
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
        tf.profiler.experimental.start(str(place), options=options)
        seconds, ended = last(wanted.seconds, steps)
        tf.profiler.experimental.stop()
        found = Operators(seconds=seconds, steps=ended, operators=hottest(place))
        json_file.write_private(place / OPERATORS, found)
    except (tf.errors.OpError, OSError) as error:
        return Done(number=wanted.number, problem=f"TensorFlow took no profile: {error}")
    return Done(number=wanted.number)


def last(seconds: float, steps: Steps) -> tuple[float, int | None]:
    """Sleep so long, and longer until a whole step was made; returns how long it was and how many steps ended in it."""
    began = time.monotonic()
    before = steps() if steps else 0
    time.sleep(seconds)
    while steps and steps() - before < _WHOLE and time.monotonic() - began < seconds + _LONGER_S:
        time.sleep(_POLL_S)
    return time.monotonic() - began, steps() - before if steps else None


def hottest(place: Path) -> tuple[Operator, ...]:
    """The operators in the profile below a directory, by kind. Raises `OSError`."""
    took, calls = Counter[str](), Counter[str]()
    for file in place.rglob("*.xplane.pb"):
        for plane in xplane_pb2.XSpace.FromString(file.read_bytes()).planes:
            kinds = {number: _KIND.fullmatch(metadata.name) for number, metadata in plane.event_metadata.items()}
            for event in (event for line in plane.lines for event in line.events):
                if kind := kinds.get(event.metadata_id):
                    took[kind[1]] += event.duration_ps
                    calls[kind[1]] += 1
    return tuple(
        Operator(name=name, milliseconds=round(picoseconds / 1e9, 3), calls=calls[name])
        for name, picoseconds in took.most_common(_HOTTEST)
    )
