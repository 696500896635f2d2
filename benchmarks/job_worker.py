"""Workers in processes of their own that run `job_step`'s step, on hash tables with AdaGrad, in turns.

As a program: `job_worker.py JSON` connects to servers, runs each of its batches once, and then for each line on its
standard input, a number, a size and a depth of the pipeline, goes through its batches of that size so many times. Each
time it prints how many samples that were.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import psutil

#: As `task_environment` has it in a container of one core, so that no thread pool looks for work on another.
ONE_CORE = {
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "GRPC_FAIL_FAST": "use_caller",
    "TF_GRPC_REUSE_PORT": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


class Worker:
    """A worker that is ready; `turn` begins one, `wait` ends it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.process = psutil.Process(process.pid)

    def turn(self, times: int, size: int = 0, depth: int = 0) -> None:
        """Begin to go through all batches of a size so many times; 0: of the first size. `depth`: `train.pipeline`."""
        print(times, size, depth, file=self._process.stdin, flush=True)

    def wait(self) -> int:
        """The samples that it went through since. Raises RuntimeError if it has ended."""
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise RuntimeError(f"worker {self._process.pid} has ended with {self._process.wait()}")
        return int(line)


@contextmanager
def workers(
    count: int, servers: Sequence[str], batches: int, environment: Mapping[str, str] = ONE_CORE,
    sizes: Sequence[int] = (), depths: Sequence[int] = (0,), engine: str = "tensorflow",
) -> Iterator[list[Worker]]:  # fmt: skip
    """Workers that are ready, of `batches` each. The first creates the variables.

    `sizes`: the same samples in batches of each of these; left out: in those of `job_step.BATCH` alone.
    `depths` of the pipeline that turns may ask for.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        found: list[Worker] = []
        for number in range(count):
            given = {
                "servers": list(servers), "number": number, "batches": batches, "folder": folder, "sizes": list(sizes),
                "depths": list(depths), "engine": engine,
            }  # fmt: skip
            process = stack.enter_context(_started(json.dumps(given), environment))
            found.append(Worker(process))
            if number == 0:
                found[0].wait()
        for worker in found[1:]:
            worker.wait()
        yield found


@contextmanager
def _started(given: str, environment: Mapping[str, str]) -> Iterator["subprocess.Popen[str]"]:
    pipe = subprocess.PIPE
    command, variables = [sys.executable, __file__, given], {**os.environ, **environment}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=variables) as process:
        try:
            yield process
        finally:
            process.kill()


class Turn(NamedTuple):
    """Of some workers: seconds for a sample."""

    processor: float
    wall: float
    #: Those of the processor that the servers took.
    serving: float


def taken(
    running: Sequence[Worker], serving: Sequence[psutil.Process], times: int, size: int = 0, depth: int = 0
) -> Turn:
    """All of `running` go through their batches of a size."""
    working = [worker.process for worker in running]
    before, began = (processor(working), processor(serving)), time.perf_counter()
    for worker in running:
        worker.turn(times, size, depth)
    samples = sum(worker.wait() for worker in running)
    wall, servers = time.perf_counter() - began, processor(serving) - before[1]
    return Turn((processor(working) - before[0] + servers) / samples, wall / samples, servers / samples)


def processor(processes: Sequence[psutil.Process]) -> float:
    """Seconds of the processor that processes have taken so far."""
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def turn(
    do: Callable[[Any], object], batches: Sequence[Any], processes: Sequence[psutil.Process]
) -> tuple[float, float]:
    """Milliseconds of a batch, by the clock and of the processor of all `processes`."""
    began, before = time.perf_counter(), processor(processes)
    for batch in batches:
        do(batch)
    spent = time.perf_counter() - began, processor(processes) - before
    return spent[0] / len(batches) * 1e3, spent[1] / len(batches) * 1e3


def main(given: str) -> None:
    """Be a worker."""
    import job_step
    from servers import connect

    from afo.job import Adagrad, Optimizer, OptimizerChoice

    asked = json.loads(given)
    choice, servers = OptimizerChoice(adagrad=Adagrad()), asked["servers"]
    optimizer = Optimizer(deep=choice, wide=choice)
    with connect(tuple(servers), asked["engine"]):
        side = partial(job_step.side, asked["folder"], "hash_table", optimizer)
        of_depth: dict[int, Callable[[Sequence[Any]], None]] = {}
        for depth in asked["depths"]:
            number = asked["number"] or len(of_depth)  # the first side of the first worker creates the variables
            made = side(number, "bfloat16", len(servers), overlapping=depth > 0)
            of_depth[depth] = _pipelined(made, depth) if depth else partial(_one_by_one, job_step.once, made)
        whole = job_step.records(asked["batches"], asked["number"])
        loads = {size: job_step.cut(whole, size) for size in asked["sizes"] or [job_step.BATCH]}
        print(sum(_run(each, batches, 1) for each in of_depth.values() for batches in loads.values()), flush=True)
        for line in sys.stdin:
            times, size, depth = map(int, line.split())
            print(_run(of_depth[depth], loads[size or next(iter(loads))], times), flush=True)


def _run(steps: Callable[[Sequence[Any]], None], batches: Sequence[Any], times: int) -> int:
    """Go through batches so many times; returns how many samples that were."""
    steps([batch for _ in range(times) for batch in batches])
    return times * sum(len(batch) for batch in batches)


def _one_by_one(once: Callable[[Any, Any], None], side: Any, batches: Sequence[Any]) -> None:
    for batch in batches:
        once(side, batch)


def _pipelined(side: Any, depth: int) -> Callable[[Sequence[Any]], None]:
    """The same through the trainer's pipeline, which is empty at the end."""
    import tensorflow as tf

    from afo.data.pipeline.batch_fragments import Origins
    from afo.data.pipeline.batcher import Batch
    from afo.train.pipeline import Pipeline

    pipeline = Pipeline(side.step, depth, lambda _: (0, 0, 0))

    def applied(batches: Sequence[Any]) -> Iterator[Any]:
        for batch in batches:
            zeros = tf.zeros(len(batch), tf.int64)
            inputs = side.prepare(batch, Origins(zeros, zeros, zeros, zeros))
            yield from pipeline.put(Batch(inputs, len(batch), ()), zeros[0])
        yield from pipeline.drain()

    def steps(batches: Sequence[Any]) -> None:
        for each in applied(batches):
            float(each.result.loss), each.result.steps.numpy()

    return steps


if __name__ == "__main__":
    main(sys.argv[1])
