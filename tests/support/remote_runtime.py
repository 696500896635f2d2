"""Runs as the ApplicationMaster's driver script on YARN and carries out calls of the yarn runtime that a test writes
into a directory: `python remote_runtime.py DIRECTORY`. The test's end is `RemoteRuntime`.

    <attempt>/<n>.call     [method, [arguments…], {keyword arguments}]
    <attempt>/<n>.reply    {"value": …} or {"error": "Class: text"}
"""

import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from afo.errors import AfoError
from afo.rpc.messages import TaskId

_POLL_S = 0.05


class RemoteRuntime:
    """The calls of `afo_am.runtime.base.Runtime`, made inside an application attempt."""

    def __init__(self, directory: Path, attempt: int = 1) -> None:
        self._directory = directory / str(attempt)
        self._calls = 0

    def wait_up(self, seconds: float = 120) -> None:
        """Until the attempt's driver script runs."""
        _wait(lambda: self._directory.exists(), seconds)

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """The method's result as plain data; an error of the runtime is an AssertionError with class and text."""
        path = self._send(method, arguments, named)
        reply = path.with_suffix(".reply")
        _wait(reply.exists, 60)
        answer = msgspec.json.decode(reply.read_bytes())
        assert "error" not in answer, answer["error"]
        return answer["value"]

    def finish(self, state: str, diagnostics: str) -> None:
        """Returns before it is carried out: the application's end takes the driver script along."""
        self._send("finish", (state, diagnostics), {})

    def _send(self, method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Path:
        self._calls += 1
        path = self._directory / f"{self._calls}.call"
        _write(path, [method, arguments, named])
        return path


def _wait(condition: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "no answer from the application"
        time.sleep(_POLL_S)


def _write(path: Path, value: object) -> None:
    partial = path.with_name(f".{path.name}")
    partial.write_bytes(msgspec.json.encode(value))
    partial.rename(path)


def main(directory: Path) -> None:
    """Serve calls until the application is ended."""
    from afo_am.runtime.application_attempt import application_attempt
    from afo_am.runtime.yarn import YarnRuntime

    calls = directory / str(application_attempt())
    runtime = YarnRuntime()
    calls.mkdir(parents=True)
    number = 1
    while True:
        path = calls / f"{number}.call"
        if not path.exists():
            time.sleep(_POLL_S)
            continue
        _write(path.with_suffix(".reply"), _carry_out(runtime, *msgspec.json.decode(path.read_bytes())))
        number += 1


def _carry_out(runtime: Any, method: str, arguments: list[Any], named: dict[str, Any]) -> dict[str, Any]:
    if method == "request":
        arguments = [msgspec.convert(arguments[0], TaskId), *arguments[1:]]
    try:
        return {"value": getattr(runtime, method)(*arguments, **named)}
    except AfoError as error:
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
