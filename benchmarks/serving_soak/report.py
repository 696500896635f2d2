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


class Soak(NamedTuple):
    """All that was seen."""

    seconds: float
    faults: list[Fault]
    verified: Verified
    answers: dict[str, list[Answer]]
    expected: dict[int, Expected]
    samples: list[Sample]
    exported: int
    refused: int
    missing: tuple[str, ...]


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
    found = [*soak.verified.wrong, *soak.verified.of_unloadable]
    found += [f"{client}: {answer} outside of a fault" for client, answer in failed.unexplained[:20]]
    found += [
        f"{kind}: {sum(codes.values())} requests failed, and none may"
        for kind, codes in failed.explained.items()
        if kind not in STOPS_ANSWERS
    ]
    if not soak.verified.right:
        found.append("no answer was compared")
    if growth(longest_life(soak.samples)) > MOST_GROWTH:
        found.append(f"memory grows by more than {MOST_GROWTH:.0f} MiB an hour")
    return found


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
            "Faults come one at a time, 10 to 45 s after the last one; none in the middle third ends the server.",
            "Requests fail where they are not answered within 5 s; nobody asks a second time.",
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
        *_of_server(soak),
    ]
    return "\n".join([*lines, ""])


def _paragraph(*parts: str) -> str:
    return textwrap.fill(" ".join(parts), _WIDTH, break_long_words=False, break_on_hyphens=False)


def _of_answers(soak: Soak, failed: Failed) -> list[str]:
    lines = ["| client | requests | failed | outside of faults | p50 ms | p99 ms |", "|---|---|---|---|---|---|"]
    for client, answers in soak.answers.items():
        taken = [1000 * (each.ended - each.began) for each in answers if not each.code]
        outside = sum(each == client for each, _ in failed.unexplained)
        lines.append(
            f"| {client} | {len(answers):,} | {sum(bool(each.code) for each in answers):,} | {outside} "
            f"| {np.percentile(taken, 50):.1f} | {np.percentile(taken, 99):.1f} |"
        )
    checked, versions = soak.verified, {each.version for each in soak.answers["checker"] if not each.code}
    loadable = [each for each in soak.expected.values() if not each.error]
    ages = freshness(soak.answers["checker"], soak.expected)
    return [
        *lines,
        "",
        _paragraph(
            f"Answers compared: {checked.right:,} right, {len(checked.wrong)} wrong, {len(checked.of_unloadable)} of",
            f"versions that TensorFlow cannot load, {checked.unknown} of versions that were gone before it could; by",
            f"{len(versions)} versions. {soak.exported} versions were exported. TensorFlow could load {len(loadable)}",
            f"({sum(each.is_whole for each in loadable)} of them whole) of the {len(soak.expected)} that it saw,",
            f"copies that were damaged among them; the server refused {soak.refused}.",
        ),
        "",
        _paragraph(
            "Age of the newest gradient in the version that answers, once a second, all faults included: p50",
            f"{np.percentile(ages, 50):.1f} s, p95 {np.percentile(ages, 95):.1f} s, longest {max(ages):.1f} s.",
        ),
    ]


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


def _of_server(soak: Soak) -> list[str]:
    life = longest_life(soak.samples)
    if not life:
        return ["No process of the server lived for a minute."]
    mib, third = [each.mib for each in life], max(1, len(life) // 3)
    held, threads = [each.descriptors for each in life], [each.threads for each in life]
    return [
        _paragraph(
            f"The server's process that lived longest, for {(life[-1].at - life[0].at) / 60:.0f} minutes after its",
            f"first: resident memory {np.median(mib[:third]):.0f} MiB in the first third,",
            f"{np.median(mib[-third:]):.0f} in the last (medians), {max(mib):.0f} at most,",
            f"{growth(life):+.0f} MiB an hour; descriptors {min(held)} to",
            f"{max(held)}, threads {min(threads)} to {max(threads)}. Of all {len({each.pid for each in soak.samples})}",
            f"processes at most: {max(each.mib for each in soak.samples):.0f} MiB,",
            f"{max(each.descriptors for each in soak.samples)} descriptors,",
            f"{max(each.threads for each in soak.samples)} threads.",
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
