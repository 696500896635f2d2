"""Where the processor's time of a training step goes, by `perf`, over the worker and its servers together.

The trainer's own step (`job_step.py`) on hash tables with AdaGrad, a worker and two servers with two threads in each
pool. `perf` samples the processes while the worker goes through its batches; each sample belongs to the first share of
`SHARES` whose library and function fit. Prints core-milliseconds a batch and shares as a table of Markdown. Where
`perf` is not there or may not look into processes it says what is missing and ends with 1: a profiler of Python's
functions alone sees a few percent of a step.
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
from job_worker import ONE_CORE, processor, workers
from report import machine
from servers import servers
from size import sized

SERVERS, THREADS = 2, "2"
#: Samples a second of a thread that runs; not a divisor of what the kernel and thread pools do by the clock.
FREQUENCY = 997
REST = "rest"


class Share(NamedTuple):
    """Functions, as patterns of their library's file and of their names."""

    name: str
    library: str
    function: str = ""


_NETWORK = "tcp|skb|sock|inet|ip_|ipv4|epoll|poll|copy_(to|from)_iter|net_|softirq|backlog|loopback|dev_|xmit|iov|fdget"
_SWITCHING = (
    "switch|sched|futex|wake|spin|queue|idle|irq|timer|hrtick|rseq|syscall|SYSCALL|ktime|tsc|pick_|rq_|update_|"
    "dequeue|enqueue|smp_call|lock_|rcu"
)
_CALLS = "grpc|Grpc|absl::.*Cord|google::protobuf|protobuf|pollset|chttp2|Chttp2|hpack|upb|event_engine|slice_buffer"
_MACHINERY = (
    "ExecutorState|PropagatorState|Rendezvous|EagerC|Eager|FunctionLibraryRuntime|OpKernelContext|Allocator|"
    "absl::|tsl::|CancellationManager|ThreadPoolDevice::Compute|tensorflow::Tensor|tensorflow::(Recv|Send)Op"
)
_ENCRYPTION = r"aesni|gcm|ghash|EVP_|SSL_|ssl3_|tls13|CRYPTO_|evp_|BIO_|bio_|ossl_|OSSL_|ERR_"
#: In their order: the first that fits.
SHARES = (
    Share("generated kernels of oneDNN (the layers)", r"^perf-\d+\.map|anon|^jitted"),
    Share("OpenSSL", r"_afo_(ops|server)", _ENCRYPTION),
    Share("our operations", r"_afo_(ops|server)"),
    Share("kernel: network and polling", r"kernel|vdso", _NETWORK),
    Share("kernel: switching and waking threads", r"kernel|vdso", _SWITCHING),
    Share("kernel: memory and the rest", r"kernel|vdso"),
    Share("memcpy, memset", r"libc\.so", r"mem(cpy|move|set)"),
    Share("malloc", r"libc\.so", r"malloc|free|calloc|realloc|memalign|unlink_chunk"),
    Share("Python", r"^(lib)?python|_pywrap|cpython-|\.abi3\."),
    Share("Eigen's thread pools looking for work", "", r"Eigen::(ThreadPoolTempl|RunQueue|EventCount)"),
    Share("gRPC and protobuf", "", _CALLS),
    Share("oneDNN around its kernels", "", r"dnnl"),
    Share("executor, eager runtime, rendezvous", r"tensorflow", rf"^(?!.*(Eigen::internal|functor)).*({_MACHINERY})"),
    Share("TensorFlow's other kernels", r"tensorflow", r"Eigen|functor|Op<|Op::Compute"),
)
_LINE = re.compile(r"\s*\d+\s+[0-9a-f]+\s+(?P<function>.*) \((?P<library>.*)\)$")


def share_of(line: str) -> str:
    """The share that a line of `perf script -F pid,ip,sym,dso` belongs to."""
    match = _LINE.match(line)
    if match is None:
        return REST
    function, library = match["function"], match["library"].rpartition("/")[2]
    fits = (share.name for share in SHARES if re.search(share.library, library) and re.search(share.function, function))
    return next(fits, REST)


def shares(lines: Iterable[str]) -> dict[str, float]:
    """Of all samples, by name; the largest first."""
    count = Counter(share_of(line) for line in lines if line.strip())
    return {name: number / count.total() for name, number in count.most_common()}


@contextmanager
def sampled(processes: list[psutil.Process], into: Path) -> Iterator[None]:
    """Meanwhile `perf` samples processes. Ends this program if it cannot."""
    asked, ask = os.pipe()
    told, tell = os.pipe()
    pids = ",".join(str(process.pid) for process in processes)
    command = ["perf", "record", "--quiet", "-e", "cpu-clock", "-F", str(FREQUENCY), "-o", str(into), "-p", pids]
    command += ["--delay", "-1", "--control", f"fd:{asked},{tell}"]
    with (
        open(ask, "wb", buffering=0) as question, open(told) as answer,
        subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, pass_fds=(asked, tell)
        ) as perf,
    ):  # fmt: skip
        os.close(asked)
        os.close(tell)
        with contextlib.suppress(BrokenPipeError):
            question.write(b"enable\n")
        if not answer.readline():
            _, said = perf.communicate()
            sys.exit(f"perf may not sample here (see /proc/sys/kernel/perf_event_paranoid); it says:\n{said}")
        try:
            yield
        finally:
            perf.send_signal(signal.SIGINT)
            perf.communicate()


def table(found: dict[str, float], milliseconds: float) -> str:
    """In Markdown."""
    rows = [f"| {name} | {share * milliseconds:.1f} | {share:.0%} |" for name, share in found.items()]
    return "\n".join(["| | core-ms | share |", "|---|---|---|", *rows])


def main() -> int:
    """0 if there was something to print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--batches", type=int, default=sized(8, 1))
    options.add_argument("--times", type=int, default=sized(50, 10), help="that the worker goes through them")
    options.add_argument("--engine", choices=("tensorflow", "psplus"), default="tensorflow", help="of the servers")
    given = options.parse_args()
    if shutil.which("perf") is None:
        sys.exit("the shares of a step need the program `perf` (Debian: linux-perf), which is not on this machine")
    environment = ONE_CORE | {name: THREADS for name in ONE_CORE if name.endswith("THREADS")}
    with (
        tempfile.TemporaryDirectory() as folder,
        servers(SERVERS, environment=environment, engine=given.engine) as (addresses, serving),
        workers(1, addresses, given.batches, environment, engine=given.engine) as (worker,),
    ):
        data, processes = Path(folder) / "perf.data", [worker.process, *serving]
        with sampled(processes, data):
            before = [processor([process]) for process in processes]
            worker.turn(given.times)
            worker.wait()
            spent = [processor([each]) - then for each, then in zip(processes, before, strict=True)]
        # Before the processes end, whose memory maps tell which library an address belongs to.
        command = ["perf", "script", "-i", str(data), "-F", "pid,ip,sym,dso"]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    each = [1e3 * seconds / (given.times * given.batches) for seconds in spent]
    print(machine())
    print(
        f"{sum(each):.1f} core-ms a batch: worker {each[0]:.1f}, servers {', '.join(f'{one:.1f}' for one in each[1:])}"
    )
    print(f"{len(lines)} samples\n{table(shares(lines), sum(each))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
