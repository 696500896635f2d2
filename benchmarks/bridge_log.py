"""When each container of an application passed each station, by the logs of Hadoop's daemons."""

import re
import statistics
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

_LINE = re.compile(r"^(\S+ \S+),(\d{3}) .*?(container_\S+_\d{6})(.*)$")
_REGISTERED = re.compile(r"^(\S+ \S+),(\d{3}) .*AM registration (appattempt_\d+_\d+)_")
#: A station, the log that tells of it, and the words behind the container's id.
STATIONS = (
    ("allocated", "resourcemanager", "Transitioned from NEW to ALLOCATED"),
    ("acquired", "resourcemanager", "Transitioned from ALLOCATED to ACQUIRED"),
    ("start asked", "nodemanager", "transitioned from NEW to"),
    ("localised", "nodemanager", "transitioned from LOCALIZING to SCHEDULED"),
    ("launching", "nodemanager", "transitioned from SCHEDULED to RUNNING"),
    ("running by YARN", "resourcemanager", "Transitioned from ACQUIRED to RUNNING"),
)
ORDER = (*(name for name, _, _ in STATIONS), "up")


def application_in(log: Path) -> str:
    """The id of the application that a client's log says it submitted; empty before."""
    match = re.search(r"Submitted application (application_\d+_\d+)", log.read_text(errors="replace"))
    return match[1] if match else ""


def registered(logs: Path, application: str) -> float:
    """When the ApplicationMaster registered with the ResourceManager."""
    number = application.removeprefix("application_")
    for line in _lines(logs, "resourcemanager"):
        match = _REGISTERED.match(line)
        if match and match[3].endswith(number):
            return _time(match[1], match[2])
    raise SystemExit(f"the ResourceManager's log does not tell when {application} registered")


def phases(logs: Path, application: str, begun: float, notes: Path) -> dict[str, Any]:
    """For each station the seconds from `begun` until the first and the last container passed it, and the median that a
    container took from the station before. `notes` holds what the containers' processes wrote at their start."""
    passed = _passed(logs, application)
    passed["up"] = {words[2]: float(words[0]) for words in (path.read_text().split() for path in notes.glob("*.up"))}
    ours = passed["up"].keys()
    times = {name: {each: at for each, at in passed[name].items() if each in ours} for name in ORDER}
    found = [name for name in ORDER if times[name]]
    return {
        "first_s": {name: min(times[name].values()) - begun for name in found},
        "last_s": {name: max(times[name].values()) - begun for name in found},
        "median_step_s": {name: _median_step(times[before], times[name]) for before, name in pairwise(found)},
    }


def _median_step(before: dict[str, float], after: dict[str, float]) -> float:
    return statistics.median(at - before[container] for container, at in after.items() if container in before)


def _passed(logs: Path, application: str) -> dict[str, dict[str, float]]:
    number = application.removeprefix("application_")
    passed: dict[str, dict[str, float]] = {name: {} for name, _, _ in STATIONS}
    for daemon in ("resourcemanager", "nodemanager"):
        for line in _lines(logs, daemon):
            match = _LINE.match(line) if number in line else None
            for name, source, words in STATIONS if match else ():
                if source == daemon and match and words in match[4]:
                    passed[name].setdefault(match[3], _time(match[1], match[2]))
    return passed


def _lines(logs: Path, daemon: str) -> Iterator[str]:
    for path in sorted(logs.glob(f"{daemon}*.log*")):
        with path.open(errors="replace") as file:
            yield from file


def _time(second: str, milliseconds: str) -> float:
    return datetime.strptime(second, "%Y-%m-%d %H:%M:%S").timestamp() + int(milliseconds) / 1000
