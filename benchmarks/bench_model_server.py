"""The model server: what it adds to a request, the memory of versions, and requests while versions change.

*Latency*: 99th percentile of requests of 1 and 50 records, one at a time, by ghz over gRPC on this machine, against
`process()` of the library in a loop; the bar is 10 % and 0.3 ms more. Much of that is ghz and gRPC: what both take for
the same bytes is printed, of a request that is refused, and the server's own time, by its access log, has the same bar.
*Memory*: of a server with 5 versions of one model, each with 1 % of the rows changed, against one version.
*Swaps*: one new version after the other, made before, under requests of two clients of ghz; none may fail, and while
versions change the 99th percentile is twice that without at most.

Wide & Deep of random_model.py, 20 native tables.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from random_model import RandomModel, records
from report import MISSED, publish, result
from size import SMALLEST, sized

from afo.ops.library import load
from afo.serving import Processor
from afo.serving.predict_messages import request_of

GHZ = "github.com/bojand/ghz/cmd/ghz@v0.93.0"
KEYS, REQUESTS, SWAPS = sized(400_000, 2_000), sized(10_000, 50), sized(200, 3)
VERSIONS, CHANGED = 5, 0.01
MODEL = RandomModel(categorical=10, dense=5, keys=KEYS)
_ADDRESS = re.compile(r'serving gRPC on (\S+)"')


def main() -> int:
    """0 if the claims hold."""
    load()
    with tempfile.TemporaryDirectory(prefix="afo-model-server-") as scratch:
        base = Path(scratch, "ctr")
        Path(scratch, "work").mkdir()
        base.mkdir()
        Path(MODEL.export(Path(scratch, "work"))).rename(base / "1")
        results = [memory(base, Path(scratch))]
        # To build the load generator takes longer than all the rest of the smallest run.
        if not SMALLEST:
            ghz = install_ghz(Path(scratch))
            results += [*latencies(base, ghz, Path(scratch)), *swaps(base, ghz, Path(scratch))]
    return 0 if publish("model_server", results) else MISSED


class Served:
    """A server in a process of its own."""

    def __init__(self, base: Path | str, scratch: Path, versions: int = 1, more: str = "") -> None:
        config, self.log = scratch / "serving.yaml", scratch / "server.log"
        policy = f"{{latest: {{num_versions: {versions}}}}}"
        config.write_text(
            f"models: [{{name: ctr, base_path: {base}, model_version_policy: {policy}}}]\n"
            "grpc: {address: '127.0.0.1:0'}\nrest: {address: '127.0.0.1:0'}\nfile_system_poll_wait: 100ms\n"
            f"cache_directory: {scratch / 'cache'}\n{more}"
        )
        words = [sys.executable, "-m", "afo_client", "serve", "--config", str(config)]
        with self.log.open("wb") as messages:
            self.process = subprocess.Popen(words, stdout=messages, stderr=messages)
        self.new_lines = self.log.open()
        self.wait_for("serving a version", versions)
        found = _ADDRESS.search(self.log.read_text())
        assert found is not None
        self.address = found[1]

    def wait_for(self, words: str, times: int = 1) -> None:
        """Among lines that no call has read: to read all again takes time from the requests that are measured."""
        said = ""
        while (said := said + self.new_lines.read()).count(words) < times:
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.005)

    def stop(self) -> None:
        self.new_lines.close()
        self.process.terminate()
        assert self.process.wait(60) == 0, self.log.read_text()


def latencies(base: Path, ghz: str, scratch: Path) -> list[dict[str, object]]:
    """Of the server against the library."""
    results = []
    with Processor(str(base / "1")) as model:
        for count in (1, 50):
            request = request_of({"examples": records(MODEL.samples(count))})
            bare = middle([percentile_of_calls(model, request) for _ in range(3)])
            ours, refused = percentiles_by_ghz(base, ghz, request, scratch)
            inside = percentile_by_access_log(base, ghz, call_of("ctr", request), scratch)
            print(
                f"{count} records: p99 of process() {bare:.3f} ms, of the same bytes refused {refused:.3f} ms",
                flush=True,
            )
            for way, taken in (("by gRPC", ours), ("by the access log", inside)):
                name = f"p99 of {count} records {way}, against process() + 10 % + 0.3 ms"
                results.append(result(name, taken, 1.1 * bare + 0.3, "ms", 1.0, lower_is_better=True))
    return results


def middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def percentile_of_calls(model: Processor, request: bytes) -> float:
    """99th, ms."""
    taken = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        model.process(request)
        taken.append(time.perf_counter() - began)
    return 1000 * float(np.percentile(taken, 99))


def install_ghz(scratch: Path) -> str:
    """A load generator of others: the one that is there, or by Go's module proxy."""
    if found := shutil.which("ghz"):
        return found
    go = Path(sys.executable).parent / "go"
    subprocess.run([go, "install", GHZ], env={**os.environ, "GOBIN": str(scratch), "GOFLAGS": ""}, check=True)
    return str(scratch / "ghz")


def percentiles_by_ghz(base: Path, ghz: str, request: bytes, scratch: Path) -> tuple[float, float]:
    """Middle one of three, ms: of a request, and of the same bytes for a model that is not there."""
    server = Served(base, scratch)
    asked = [ask(server, ghz, call_of("ctr", request), scratch) for _ in range(3)]
    refused = [ask(server, ghz, call_of("ctx", request), scratch, "NotFound") for _ in range(3)]
    server.stop()
    return middle(asked), middle(refused)


def ask(
    server: Served, ghz: str, call: bytes, scratch: Path, code: str = "OK", env: dict[str, str] | None = None
) -> float:
    """99th percentile, ms, of one client without a pause, all of whose answers have that code."""
    words = [*ghz_call(ghz, call, scratch), "-n", str(REQUESTS), "-c", "1", "--count-errors", "-O", "json"]
    asked = subprocess.run(
        [*words, server.address], env={**os.environ, **(env or {})}, capture_output=True, text=True, check=True
    )
    report = json.loads(asked.stdout)
    assert report["statusCodeDistribution"] == {code: REQUESTS}, report["statusCodeDistribution"]
    return percentile_99(report)


def percentile_by_access_log(base: Path, ghz: str, call: bytes, scratch: Path) -> float:
    """Middle one of three, ms, of the server's own time: from a call's header to its answer, which gRPC then writes."""
    log = scratch / "access.log"
    server = Served(base, scratch, more=f"access_log: {log}\n")
    for _ in range(3):
        # The client's garbage collector would take a core from the server.
        ask(server, ghz, call, scratch, env={"GOGC": "off"})
    server.stop()
    seconds = [json.loads(line)["seconds"] for line in log.read_text().splitlines()]
    log.unlink()
    return middle(
        [1000 * float(np.percentile(seconds[at : at + REQUESTS], 99)) for at in range(0, 3 * REQUESTS, REQUESTS)]
    )


def call_of(model: str, request: bytes) -> bytes:
    """A request for a model, with its model_spec."""
    name = model.encode()
    return b"\x0a" + bytes([len(name) + 2]) + b"\x0a" + bytes([len(name)]) + name + request


def ghz_call(ghz: str, call: bytes, scratch: Path) -> list[str]:
    protos, body = scratch / "protos", scratch / "request"
    protos.write_bytes(descriptors())
    body.write_bytes(call)
    method = "tensorflow.serving.PredictionService.Predict"
    return [ghz, "--insecure", "--protoset", str(protos), "--call", method, "--binary-file", str(body)]


def percentile_99(report: dict[str, Any]) -> float:
    """Of a report of ghz, ms."""
    return float(next(each["latency"] for each in report["latencyDistribution"] if each["percentage"] == 99)) / 1e6


def descriptors() -> bytes:
    """Of TensorFlow Serving's service, and all that it uses."""
    from google.protobuf import descriptor_pb2
    from tensorflow_serving.apis import prediction_service_pb2

    files: dict[str, Any] = {}

    def add(file: Any) -> None:
        if file.name not in files:
            for each in file.dependencies:
                add(each)
            files[file.name] = descriptor_pb2.FileDescriptorProto()
            file.CopyToProto(files[file.name])

    add(prediction_service_pb2.DESCRIPTOR)
    return descriptor_pb2.FileDescriptorSet(file=list(files.values())).SerializeToString()


def memory(base: Path, scratch: Path) -> dict[str, object]:
    """Of all versions, against one."""
    taken = []
    for versions in (1, VERSIONS):
        while len(list(base.iterdir())) < versions:
            add_version(base, number=len(list(base.iterdir())) + 1, parent=1)
        server = Served(base, scratch, versions)
        time.sleep(sized(5, 0))  # copies of tables are made behind the first answers
        taken.append(psutil.Process(server.process.pid).memory_full_info().uss / 1e6)
        server.stop()
    name = f"memory of {VERSIONS} versions of one model, bar 1.3 of one"
    return result(name, taken[1], taken[0], "MB", 1 / 1.3, lower_is_better=True)


def add_version(base: Path, number: int, parent: int, to: Path | None = None) -> None:
    """A version whose tables have 1 % other rows than the parent's, put there, or beside, as an export puts it."""
    from afo.tables.merged_rows import MergedRows
    from afo.trainable.served.rows_file import ChangedRows, Parent, write_rows
    from afo.trainable.served.rows_header import MOST_HEADER_BYTES, read_header

    random, made = np.random.default_rng(number), base.parent / f"making-{number}"
    shutil.copytree(base / str(parent), made, ignore=shutil.ignore_patterns("*.rows"))
    for table in (base / str(parent) / "assets").glob("*.rows"):
        with table.open("rb") as file:
            header = file.read(MOST_HEADER_BYTES)
        rows = MergedRows(int.from_bytes(header[12:16], "little"), made)
        records = np.zeros(int(CHANGED * KEYS), rows.record)
        records["key"] = np.sort(random.choice(KEYS, len(records), replace=False))
        records["order"], records["weights"] = 1, random.normal(0, 0.05, records["weights"].shape)
        rows.add_run([records])
        changed = ChangedRows(rows, Parent(read_header(header, str(table)).id, f"../../{parent}/assets/{table.name}"))
        with (made / "assets" / table.name).open("wb") as file:
            write_rows(file, changed, 0.0, "float32")
    made.rename((to or base) / str(number))


def swaps(base: Path, ghz: str, scratch: Path) -> list[dict[str, object]]:
    """Requests while one version after the other comes and goes. The versions are made before."""
    newest, made = max(int(path.name) for path in base.iterdir()), scratch / "made"
    made.mkdir()
    for number in range(newest + 1, newest + 1 + SWAPS):
        add_version(base, number, parent=1, to=made)
    server = Served(base, scratch)
    call = call_of("ctr", request_of({"examples": records(MODEL.samples(50))}))
    with Load(server, ghz, call, scratch) as quiet:
        time.sleep(sized(20, 1))
    with Load(server, ghz, call, scratch) as changing:
        for number in range(newest + 1, newest + 1 + SWAPS):
            (made / str(number)).rename(base / str(number))
            server.wait_for(f"version={number} ")
            if number > newest + 2:
                shutil.rmtree(base / str(number - 2))
    server.stop()
    answered, asked = changing.codes["OK"], changing.codes.total()
    print(f"{asked} requests over {SWAPS} swaps: {dict(changing.codes)}; without {dict(quiet.codes)}", flush=True)
    return [
        result("requests answered over the swaps", answered, asked, "requests", 1.0, lower_is_better=False),
        result("p99 while versions change, bar 2 of without", changing.p99, quiet.p99, "ms", 0.5, lower_is_better=True),
    ]


class Load:
    """Two clients of ghz, 200 requests a second, until the block ends."""

    def __init__(self, server: Served, ghz: str, call: bytes, scratch: Path) -> None:
        # A run that is cut off cancels its last requests: so there is one short one after the other.
        self.words = [
            *ghz_call(ghz, call, scratch),
            "-c",
            "2",
            "--rps",
            "200",
            "-z",
            "5s",
            "--duration-stop",
            "wait",
            "-O",
            "json",
            server.address,
        ]
        self.codes: Counter[str] = Counter()
        self.milliseconds: list[float] = []
        self.over = threading.Event()
        self.asking = threading.Thread(target=self.ask)

    def ask(self) -> None:
        while not self.over.is_set():
            report = json.loads(subprocess.run(self.words, capture_output=True, text=True, check=True).stdout)
            self.codes.update(report["statusCodeDistribution"])
            self.milliseconds += [each["latency"] / 1e6 for each in report["details"]]

    def __enter__(self) -> "Load":
        self.asking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.asking.join()

    @property
    def p99(self) -> float:
        return float(np.percentile(self.milliseconds, 99))


if __name__ == "__main__":
    sys.exit(main())
