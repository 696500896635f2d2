"""What a soak came to: a page in Markdown, and whether all of it holds."""

import os
import platform
import subprocess
import textwrap
import time
from collections import Counter
from collections.abc import Sequence
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from serving_soak.checker import Answer, Verified
from serving_soak.expected import Expected
from serving_soak.faults import STOPS_ANSWERS, Fault
from serving_soak.server import Sample

#: Freshness is looked at so often.
_EVERY_S = 1.0
#: What a process takes is settled after so long.
_SETTLED_S = 60.0
#: Growth of memory from the first third to the last of the longest life of a process, in MiB an hour.
MOST_GROWTH = 100.0
_WIDTH = 118


class Seen(NamedTuple):
    """Of one server: what its checker was answered, what its processes took, and how many versions it refused."""

    answers: list[Answer]
    verified: Verified
    samples: list[Sample]
    refused: int


class Soak(NamedTuple):
    """All that was seen."""

    seconds: float
    faults: list[Fault]
    #: The server that is killed, stopped and short of memory.
    broken: Seen
    #: The server of the versions in HDFS, which no fault ends.
    of_hdfs: Seen
    #: Of the load generators, which ask the first.
    load: dict[str, list[Answer]]
    expected: dict[int, Expected]
    #: Looks for versions to put into HDFS that came to nothing, by error.
    given_up: Counter[str]
    exported: int
    missing: tuple[str, ...]

    @property
    def answers(self) -> dict[str, list[Answer]]:
        """Of the server that is broken, by client."""
        return {"checker": self.broken.answers, **self.load}


class Failed(NamedTuple):
    """Requests that were not answered: by kind of fault, and those that no fault explains."""

    explained: dict[str, Counter[str]]
    unexplained: list[tuple[str, Answer]]


def attribute(answers: dict[str, list[Answer]], faults: Sequence[Fault]) -> Failed:
    """Each failed request to a fault that it overlaps with, first to one in which requests may fail."""
    explained: dict[str, Counter[str]] = {}
    unexplained: list[tuple[str, Answer]] = []
    ordered = sorted(faults, key=lambda fault: fault.kind not in STOPS_ANSWERS)
    for client, all_of_it in answers.items():
        for answer in (each for each in all_of_it if each.code):
            fault = next((f for f in ordered if answer.began <= f.until and answer.ended >= f.began - 0.1), None)
            if fault is None:
                unexplained.append((client, answer))
            else:
                explained.setdefault(fault.kind, Counter())[f"{client}: {answer.code}"] += 1
    return Failed(explained, unexplained)


def freshness(answers: Sequence[Answer], expected: dict[int, Expected]) -> list[float]:
    """Age of the newest gradient in the version that answers, seen once a second."""
    ages, last = [], 0.0
    for answer in answers:
        known = expected.get(answer.version)
        if answer.code or answer.ended - last < _EVERY_S or known is None or known.error:
            continue
        last = answer.ended
        ages.append(answer.ended - known.trained_at)
    return ages


def unanswered(answers: Sequence[Answer], fault: Fault) -> float:
    """The longest time around a fault in which the checker got no answer, in seconds."""
    good = [each.ended for each in answers if not each.code]
    around = [at for at in good if fault.began - 1.0 <= at <= fault.until]
    return max((after - before for before, after in pairwise(around)), default=fault.until - fault.began)


def longest_life(samples: Sequence[Sample]) -> list[Sample]:
    """Of one process, without its beginning."""
    lives: dict[int, list[Sample]] = {}
    for sample in samples:
        lives.setdefault(sample.pid, []).append(sample)
    longest = max(lives.values(), key=lambda life: life[-1].at - life[0].at)
    return [each for each in longest if each.at - longest[0].at >= _SETTLED_S]


def growth(life: Sequence[Sample]) -> float:
    """Of memory, MiB an hour, by the medians of the first and the last third; 0 of a life that is too short to say."""
    third = len(life) // 3
    if third < 10:
        return 0.0
    first, last = life[:third], life[-third:]
    rise = np.median([each.mib for each in last]) - np.median([each.mib for each in first])
    hours = (np.mean([each.at for each in last]) - np.mean([each.at for each in first])) / 3600
    return float(rise / hours)


def problems(soak: Soak) -> list[str]:
    """What does not hold; nothing where all does."""
    failed = attribute(soak.answers, soak.faults)
    verified = (soak.broken.verified, soak.of_hdfs.verified)
    found = [each for one in verified for each in (*one.wrong, *one.of_unloadable)]
    found += [f"{client}: {answer} outside of a fault" for client, answer in failed.unexplained[:20]]
    found += [
        f"{kind}: {sum(codes.values())} requests failed, and none may"
        for kind, codes in failed.explained.items()
        if kind not in STOPS_ANSWERS
    ]
    found += [f"of HDFS: {answer}" for answer in soak.of_hdfs.answers if answer.code][:20]
    if not all(each.right for each in verified):
        found.append("no answer was compared")
    if answered_by(soak.of_hdfs) < soak.exported // 2:
        found.append(f"of {soak.exported} versions {answered_by(soak.of_hdfs)} answered from HDFS")
    if len({each.pid for each in soak.of_hdfs.samples}) != 1:
        found.append("the server of HDFS has ended")
    if growth(longest_life(soak.of_hdfs.samples)) > MOST_GROWTH:
        found.append(f"memory grows by more than {MOST_GROWTH:.0f} MiB an hour")
    return found


def answered_by(seen: Seen) -> int:
    """How many versions answered."""
    return len({each.version for each in seen.answers if not each.code})


def page(soak: Soak, rates: str) -> str:
    """The report."""
    failed, wrong = attribute(soak.answers, soak.faults), problems(soak)
    verdict = f"**It does not hold:** {'; '.join(wrong)[:4000]}" if wrong else "**All of it holds.**"
    lines = [
        "# Soak of serving: training, export, server and load, with faults",
        "",
        _paragraph(
            "Written by `make soak-serving` (`benchmarks/serving_soak/__main__.py`). A job trains Wide & Deep on",
            "synthetic clicks and exports a version every 15 s with what changed (`deltas: true`,",
            "`full_every: 16`, `keep: 10`). `afo serve`",
            f"serves the newest one. {rates}. A checker asks for the same 8 records ten times a second, and",
            "each of its answers is compared with that of `tf.saved_model.load` of the version that it names, to 2e-6.",
            "Faults come one at a time, 10 to 45 s after the last one.",
            "Requests fail where they are not answered within 5 s; nobody asks a second time.",
            "A second server has the same versions from a real HDFS, into which they are put as they come. No fault",
            "ends it, a checker asks it as well, and its one process shows what an hour does to memory.",
        ),
        "",
        circumstances(soak.seconds),
        "",
        verdict,
        "",
        *_of_answers(soak, failed),
        "",
        *_of_faults(soak, failed),
        "",
        *_of_processes(soak),
    ]
    return "\n".join([*lines, ""])


def _paragraph(*parts: str) -> str:
    return textwrap.fill(" ".join(parts), _WIDTH, break_long_words=False, break_on_hyphens=False)


def _item(text: str) -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _of_answers(soak: Soak, failed: Failed) -> list[str]:
    lines = ["| client | requests | failed | outside of faults | p50 ms | p99 ms |", "|---|---|---|---|---|---|"]
    unexplained = Counter(client for client, _ in failed.unexplained)
    for client, answers in soak.answers.items():
        lines.append(_row(client, answers, str(unexplained[client])))
    lines.append(_row("checker, server of HDFS", soak.of_hdfs.answers, "–"))
    loadable = [each for each in soak.expected.values() if not each.error]
    return [
        *lines,
        "",
        _item(_of_server("the server", soak.broken, soak.expected)),
        _item(_of_server("the server of HDFS", soak.of_hdfs, soak.expected)),
        "",
        _paragraph(
            f"{soak.exported} versions were exported. TensorFlow could load {len(loadable)}",
            f"({sum(each.is_whole for each in loadable)} of them whole) of the {len(soak.expected)} that it saw,",
            f"copies that were damaged among them. {sum(soak.given_up.values())} looks for versions to put into HDFS",
            "came to nothing while it was gone or a version was deleted meanwhile"
            f" ({', '.join(f'{count} {error}' for error, count in sorted(soak.given_up.items())) or 'none'}).",
        ),
    ]


def _row(client: str, answers: Sequence[Answer], outside: str) -> str:
    taken = [1000 * (each.ended - each.began) for each in answers if not each.code]
    return (
        f"| {client} | {len(answers):,} | {sum(bool(each.code) for each in answers):,} | {outside} "
        f"| {np.percentile(taken, 50):.1f} | {np.percentile(taken, 99):.1f} |"
    )


def _of_server(name: str, seen: Seen, expected: dict[int, Expected]) -> str:
    checked, ages = seen.verified, freshness(seen.answers, expected)
    return (
        f"Of {name}, answers compared: {checked.right:,} right, {len(checked.wrong)} wrong, "
        f"{len(checked.of_unloadable)} of versions that TensorFlow cannot load, {checked.unknown} of versions that "
        f"were gone before it could; by {answered_by(seen)} versions; "
        f"{seen.refused} refused. Age of the newest gradient in the version that answers, once a second, all "
        f"faults included: p50 {np.percentile(ages, 50):.1f} s, p95 {np.percentile(ages, 95):.1f} s, "
        f"longest {max(ages):.1f} s."
    )


def _of_faults(soak: Soak, failed: Failed) -> list[str]:
    lines = [
        "| fault | times | requests failed | of which | longest without an answer: median s | most s |",
        "|---|---|---|---|---|---|",
    ]
    for kind in sorted({fault.kind for fault in soak.faults}):
        mine, codes = [fault for fault in soak.faults if fault.kind == kind], failed.explained.get(kind, Counter())
        gaps = [unanswered(soak.answers["checker"], fault) for fault in mine]
        of = ", ".join(f"{count} {code}" for code, count in sorted(codes.items())) or "–"
        lines.append(
            f"| {kind} | {len(mine)} | {sum(codes.values())} | {of} | {np.median(gaps):.1f} | {max(gaps):.1f} |"
        )
    left_out = [f"Left out, as this machine cannot bring it about: {each}." for each in soak.missing]
    notes = [
        f"- {time.strftime('%H:%M:%S', time.gmtime(f.began))} {f.kind} {f.note}".replace(" : ", ": ")
        for f in soak.faults
    ]
    return [*lines, "", *left_out, *([""] if left_out else []), *notes]


def _of_processes(soak: Soak) -> list[str]:
    life = longest_life(soak.of_hdfs.samples)
    if not life:
        return ["The server of HDFS did not live for a minute."]
    mib, third, all_of_them = [each.mib for each in life], max(1, len(life) // 3), soak.broken.samples
    held, threads = [each.descriptors for each in life], [each.threads for each in life]
    return [
        _paragraph(
            f"The process of the server of HDFS, for {(life[-1].at - life[0].at) / 60:.0f} minutes after its first:",
            f"resident memory {np.median(mib[:third]):.0f} MiB in the first third,",
            f"{np.median(mib[third:-third]):.0f} in the second, {np.median(mib[-third:]):.0f} in the last (medians),",
            f"{max(mib):.0f} at most, {growth(life):+.0f} MiB an hour; descriptors {min(held)} to",
            f"{max(held)}, threads {min(threads)} to {max(threads)}. Of all {len({each.pid for each in all_of_them})}",
            f"processes of the other server at most: {max(each.mib for each in all_of_them):.0f} MiB,",
            f"{max(each.descriptors for each in all_of_them)} descriptors,",
            f"{max(each.threads for each in all_of_them)} threads.",
        )
    ]


def circumstances(seconds: float) -> str:
    """Commit, day, machine and versions."""
    root = Path(__file__).parents[2]
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("afo", "tensorflow-cpu", "grpcio"))
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    return _paragraph(
        f"Commit {commit}, {time.strftime('%Y-%m-%d', time.gmtime())}; {seconds / 60:.0f} minutes on",
        f"{platform.machine()}, {os.cpu_count()} cores, load {load} at the end (1, 5, 15 minutes);",
        f"Python {platform.python_version()},",
        f"{versions}.",
    )
