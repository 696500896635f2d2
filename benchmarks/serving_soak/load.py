"""Load on the server for the whole time, by load generators of others: ghz over gRPC and vegeta over REST."""

import base64
import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from bench_model_server import GHZ, descriptors

from serving_soak.checker import Answer, predict_request

VEGETA = "github.com/tsenart/vegeta/v12@v12.13.0"
_TOOLS = Path(__file__).parents[2] / "build" / "load-generators"
GRPC_RATE, REST_RATE = 40, 20
TIMEOUT = "5s"
_PREDICT = "tensorflow.serving.PredictionService.Predict"


class Load:
    """Both generators, for so many seconds."""

    def __init__(self, grpc_address: str, rest_address: str, records: list[bytes], seconds: int, scratch: Path) -> None:
        self._scratch = scratch
        self._grpc = self._start_ghz(grpc_address, records, seconds)
        self._rest = self._start_vegeta(rest_address, records, seconds)

    def _start_ghz(self, address: str, records: list[bytes], seconds: int) -> "subprocess.Popen[bytes]":
        protos, body = self._scratch / "protos", self._scratch / "request"
        protos.write_bytes(descriptors())
        body.write_bytes(predict_request(records).SerializeToString())
        words = [tool(GHZ), "--insecure", "--protoset", protos, "--binary-file", body, "-z", f"{seconds}s", "--rps",
                 GRPC_RATE, "-c", 4, "-t", TIMEOUT, "--duration-stop", "wait", "-O", "json", "-o",
                 self._scratch / "ghz.json", "--call", _PREDICT, address]  # fmt: skip
        return self._started("ghz", list(map(str, words)))

    def _start_vegeta(self, address: str, records: list[bytes], seconds: int) -> "subprocess.Popen[bytes]":
        body, targets = self._scratch / "body.json", self._scratch / "targets"
        body.write_text(json.dumps({"instances": [{"b64": base64.b64encode(each).decode()} for each in records]}))
        targets.write_text(f"POST http://{address}/v1/models/ctr:predict\n@{body}\n")
        words = [tool(VEGETA), "attack", "-targets", targets, "-rate", f"{REST_RATE}/1s", "-duration", f"{seconds}s",
                 "-timeout", TIMEOUT, "-max-body", 0, "-output", self._scratch / "vegeta.bin"]  # fmt: skip
        return self._started("vegeta", list(map(str, words)))

    def _started(self, name: str, words: list[str]) -> "subprocess.Popen[bytes]":
        with (self._scratch / f"{name}.log").open("wb") as said:
            return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said)

    def wait(self) -> None:
        """Until both are done."""
        for process in (self._grpc, self._rest):
            if process.wait(120):
                raise SystemExit(f"{process.args} ended with {process.returncode}: {self.said()}")

    def is_running(self) -> bool:
        """Whether neither has ended."""
        return all(process.poll() is None for process in (self._grpc, self._rest))

    def said(self) -> str:
        """The end of their messages."""
        return "".join((self._scratch / f"{name}.log").read_text()[-2000:] for name in ("ghz", "vegeta"))

    def stop(self) -> None:
        """End both, where they are not done."""
        for process in (self._grpc, self._rest):
            process.kill()
            process.wait()

    def answers(self) -> dict[str, list[Answer]]:
        """By generator."""
        return {"ghz, gRPC": list(self._of_ghz()), "vegeta, REST": list(self._of_vegeta())}

    def _of_ghz(self) -> Iterator[Answer]:
        report: dict[str, Any] = json.loads((self._scratch / "ghz.json").read_text())
        for each in report["details"]:
            # With nanoseconds, which Python's dates do not have.
            at = datetime.fromisoformat(each["timestamp"]).timestamp()
            seconds = each["latency"] / 1e9
            yield Answer(at - seconds, at, "" if each["status"] == "OK" else each["status"])

    def _of_vegeta(self) -> Iterator[Answer]:
        words = [tool(VEGETA), "encode", "-to", "csv", str(self._scratch / "vegeta.bin")]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for at, code, latency, *_ in csv.reader(process.stdout):
                began = int(at) / 1e9
                yield Answer(began, began + int(latency) / 1e9, "" if code == "200" else code or "0")


def tool(module: str) -> str:
    """A program of Go's module proxy, built once."""
    name = module.split("@")[0].removesuffix("/v12").rpartition("/")[2]
    if not (_TOOLS / name).exists():
        go = Path(sys.executable).parent / "go"
        subprocess.run([go, "install", module], env={**os.environ, "GOBIN": str(_TOOLS), "GOFLAGS": ""}, check=True)
    return str(_TOOLS / name)
