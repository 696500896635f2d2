"""Synthetic click data with a known answer: records drawn from a `Teacher`, and the best that any model can reach.

A data set is a directory with `train/part-*`, `eval/part-*`, `schema.yaml`, and `answer.json`, which is written last: a
data set that has one is complete.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from afo import storage
from afo.data.feature import Feature
from afo.data.io.example_batch import Column, encode_columns
from afo.data.io.tfrecord import RecordWriter
from afo.data.model_metrics import auc, calibration, log_loss
from afo.data.schema import Schema
from afo.data.synthetic.data_set import (
    check_counts,
    delete_answer,
    delete_other_parts,
    existing_parts,
    part_urls,
    read_answer,
    write_answer,
)
from afo.data.synthetic.teacher import Draw, Teacher, TeacherSpec, sigmoid
from afo.errors import DataError

Part = Literal["train", "eval"]
PARTS: tuple[Part, ...] = ("train", "eval")
LABEL = "click"
SAMPLE_ID = "sample_id"
#: Samples drawn and encoded at a time; bounds the memory. The data depends on it, so it is part of the version.
CHUNK = 16_384
#: Raised when the same parameters give other data than before.
VERSION = 1
#: Purposes of random streams; the teacher itself uses those below.
_STREAM = {"train": 10, "eval": 11}


class SynthParameters(msgspec.Struct, frozen=True, kw_only=True):
    """All that determines a data set, byte for byte."""

    train: int = 1_500_000
    eval: int = 200_000
    train_files: int = 16
    eval_files: int = 4
    compression: Literal["none", "gzip", "zlib"] = "none"
    teacher: TeacherSpec = TeacherSpec()
    version: int = VERSION

    def __post_init__(self) -> None:
        check_counts("train", self.train, self.train_files)
        check_counts("eval", self.eval, self.eval_files)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the teacher's own probabilities reach on the evaluation files: the best that can be expected of a model."""

    auc: float
    log_loss: float
    calibration: float
    train_records: int
    eval_records: int
    eval_positives: int
    parameters: SynthParameters


class _File(msgspec.Struct, frozen=True):
    """One file to write: samples `first` to `first + count`."""

    url: str
    part: Part
    number: int
    first: int
    count: int


#: Labels and the teacher's probabilities of a file's samples; empty for training files.
_Truth = tuple[NDArray[np.int64], NDArray[np.float64]]


def synthesize(url: str, parameters: SynthParameters, processes: int, on_records: Callable[[int], None]) -> Answer:
    """Writes the data set into the directory `url`, unless it is there already, and returns its answer.

    `on_records` is told how many more records are written, a file at a time. Other part files in `train/` and `eval/`
    are deleted. Raises StorageError, and DataError when a writing process dies.
    """
    files = {part: _plan(url, part, parameters) for part in PARTS}
    known = read_answer(url, Answer)
    if known is not None and known.parameters == parameters and _all_there(url, files):
        on_records(parameters.train + parameters.eval)
        return known
    delete_answer(url)
    for part in PARTS:
        delete_other_parts(storage.join(url, part), [file.url for file in files[part]])
    storage.write_bytes(storage.join(url, "schema.yaml"), schema_of(parameters.teacher).to_yaml().encode())
    truths: list[_Truth] = []
    every = files["train"] + files["eval"]
    for file, truth in zip(every, _write_files(every, parameters, processes), strict=True):
        truths.append(truth)
        on_records(file.count)
    answer = _answer(parameters, truths)
    write_answer(url, answer)
    return answer


def _all_there(url: str, files: dict[Part, list[_File]]) -> bool:
    return all(
        existing_parts(storage.join(url, part)) == {storage.name(file.url) for file in files[part]} for part in PARTS
    )


def schema_of(teacher: TeacherSpec) -> Schema:
    """The schema of a teacher's records."""
    ids = (Feature(name=feature.name, kind="categorical") for feature in teacher.categorical)
    dense = (Feature(name=name, kind="dense") for name in teacher.dense)
    return Schema(features=(*ids, *dense), label=LABEL, sample_id=SAMPLE_ID)


def _plan(url: str, part: Part, parameters: SynthParameters) -> list[_File]:
    training = part == "train"
    records = parameters.train if training else parameters.eval
    urls = part_urls(
        storage.join(url, part), parameters.train_files if training else parameters.eval_files, parameters.compression
    )
    bounds = [records * number // len(urls) for number in range(len(urls) + 1)]
    start = 0 if training else parameters.train
    return [
        _File(target, part, number, start + bounds[number], bounds[number + 1] - bounds[number])
        for number, target in enumerate(urls)
    ]


def _write_files(files: list[_File], parameters: SynthParameters, processes: int) -> Iterator[_Truth]:
    """Writes the files, in processes of their own when there are several, and yields their truths in order."""
    if processes == 1:
        teacher = Teacher(parameters.teacher)
        yield from (_write(teacher, parameters, file) for file in files)
        return
    pool = ProcessPoolExecutor(
        min(processes, len(files)), multiprocessing.get_context("spawn"), _prepare_process, (parameters,)
    )
    try:
        # A Ctrl-C reaches every process of the terminal. The writing ones inherit this mask, so that the parent alone
        # answers it, and they finish the file they are at.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            truths = pool.map(_write_in_process, files)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield from truths
    except BrokenProcessPool as error:
        raise DataError("a process that writes data died; is there memory enough? Try fewer processes") from error
    finally:
        pool.shutdown(cancel_futures=True)


#: What a writing process works with from its start on.
_of_process: tuple[Teacher, SynthParameters] | None = None


def _prepare_process(parameters: SynthParameters) -> None:
    global _of_process
    _of_process = Teacher(parameters.teacher), parameters


def _write_in_process(file: _File) -> _Truth:
    if _of_process is None:
        raise DataError(f"{file.url}: the writing process was not prepared")
    return _write(*_of_process, file)


def _write(teacher: Teacher, parameters: SynthParameters, file: _File) -> _Truth:
    rng = np.random.default_rng([parameters.teacher.seed, _STREAM[file.part], file.number])
    labels, probabilities = [], []
    with RecordWriter(file.url, parameters.compression) as writer:
        for first in range(file.first, file.first + file.count, CHUNK):
            draw = teacher.draw(min(CHUNK, file.first + file.count - first), rng)
            writer.write_all(encode_columns(_columns(teacher.spec, draw, first)))
            if file.part == "eval":
                labels.append(draw.label)
                probabilities.append(sigmoid(draw.logit))
    return np.concatenate(labels or [np.empty(0, np.int64)]), np.concatenate(probabilities or [np.empty(0)])


def _columns(spec: TeacherSpec, draw: Draw, first: int) -> dict[str, Column]:
    columns: dict[str, Column] = dict(draw.ids)
    columns |= {name: draw.dense[:, number] for number, name in enumerate(spec.dense)}
    columns[LABEL] = draw.label
    columns[SAMPLE_ID] = np.arange(first, first + len(draw.label), dtype=np.int64)
    return columns


def _answer(parameters: SynthParameters, truths: list[_Truth]) -> Answer:
    label = np.concatenate([truth[0] for truth in truths])
    probability = np.concatenate([truth[1] for truth in truths])
    return Answer(
        auc=auc(label, probability),
        log_loss=log_loss(label, probability),
        calibration=calibration(label, probability),
        train_records=parameters.train,
        eval_records=parameters.eval,
        eval_positives=int(label.sum()),
        parameters=parameters,
    )
