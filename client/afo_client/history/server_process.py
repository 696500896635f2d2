"""The history server as a process of this user: started detached, found again, ended."""

import hashlib
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import IO

import psutil
from msgspec import Struct

from afo.errors import AfoError, NotFound, SpecError, WaitTimeout
from afo.formats import json_file
from afo.site.user_state import UserState, read_token

#: From start to the first answer; reading libraries from a slow disk included.
START_S = 60.0
_STOP_S = 10.0
#: A process that closed its output ends within this.
_ENDING_S = 5.0
_LOG_TAIL = 4000


class HistoryServer(Struct, frozen=True, kw_only=True):
    """A server as noted at its start. `born` tells it from a later process with the same id."""

    pid: int
    born: float
    address: str
    root: str
    command: list[str]


def command_line(state_dir: Path, root: str, port: int, foreground: bool = False) -> list[str]:
    """How the server is started."""
    index = state_dir / "history" / f"jobs-{hashlib.sha256(root.encode()).hexdigest()[:16]}.sqlite"
    command = [sys.executable, "-m", "afo_history_server", "--root", root, "--port", str(port)]
    return [*command, "--index", str(index), "--token-file", str(UserState(state_dir).token_file(foreground))]


def sign_in_address(address: str, token: Path) -> str:
    """Signs in whoever opens it. Raises `NotFound` or `PermissionDenied`."""
    return f"{address.rstrip('/')}/login?token={read_token(token)}"


def running(state_dir: Path) -> HistoryServer | None:
    """The server that this user started, None if it is not there any more."""
    try:
        server = json_file.read(_note(state_dir), HistoryServer)
    except (NotFound, SpecError):
        return None
    return server if _process(server) else None


def start(state_dir: Path, command: list[str]) -> HistoryServer:
    """Start it and wait until it takes connections. Raises `AfoError` with its last words if it does not."""
    UserState(state_dir).make_token()
    log = _note(state_dir).with_name("server.log")
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    address = _first_line(process)
    if not address:
        raise _not_started(process, log)
    born = psutil.Process(process.pid).create_time()
    server = HistoryServer(
        pid=process.pid, born=born, address=address, root=command[command.index("--root") + 1], command=command
    )
    json_file.write_private(_note(state_dir), server)
    return server


def stop(server: HistoryServer) -> None:
    """Ask it to end, kill it if it does not. Returns when it is gone."""
    process = _process(server)
    if process is None:
        return
    try:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(_STOP_S)
    except psutil.NoSuchProcess:
        return


def _note(state_dir: Path) -> Path:
    return state_dir / "history" / "server.json"


def _process(server: HistoryServer) -> psutil.Process | None:
    try:
        process = psutil.Process(server.pid)
        alive = process.create_time() == server.born and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None
    return process if alive else None


def _first_line(process: "subprocess.Popen[bytes]") -> str:
    """The address that the server prints once it listens; '' if it ended or was silent for `START_S`."""
    out: IO[bytes] | None = process.stdout
    if out is None:
        raise ValueError("the process was started without a pipe")
    with out:
        ready, _, _ = select.select([out], [], [], START_S)
        return out.readline().decode().strip() if ready else ""


def _not_started(process: "subprocess.Popen[bytes]", log: Path) -> AfoError:
    try:
        process.wait(_ENDING_S)
        silent = False
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        silent = True
    words = log.read_bytes()[-_LOG_TAIL:].decode(errors="replace").strip().removeprefix("error: ")
    if silent:
        return WaitTimeout(f"the history server did not listen within {START_S:g} s; {words or 'it said nothing'}")
    return AfoError(f"the history server did not start: {words or f'its log is {log}'}")
