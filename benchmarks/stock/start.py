"""Starts a program of this folder in every task, as a user's script does, and ends the others when its chief is done.

start.py PROGRAM LOGS SERVERS WORKERS ARGUMENT… runs the program with TF_CONFIG; each task writes LOGS/<role>-<index>.
A coordinator gets a chief of its own, between graphs worker 0 is the chief. Exit code: that of the chief, or 1 if
another task ends first with another than 0.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAMS = Path(__file__).parent
VARIABLES = {"TF_CPP_MIN_LOG_LEVEL": "2", "GRPC_FAIL_FAST": "use_caller", "TF_GRPC_REUSE_PORT": "1"}
POLL_S = 0.05


@contextmanager
def addresses(count: int) -> Iterator[Iterator[str]]:
    """Of this machine; their ports are bound meanwhile, so that nobody else gets one before a server listens."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            each.bind(("127.0.0.1", 0))
        yield iter([f"127.0.0.1:{each.getsockname()[1]}" for each in sockets])


def started(
    program: str, logs: Path, cluster: dict[str, list[str]], arguments: list[str]
) -> dict[str, subprocess.Popen[bytes]]:
    """The tasks by name."""
    tasks = {}
    for role, index in [(role, index) for role, of_role in cluster.items() for index in range(len(of_role))]:
        config = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
        with open(logs / f"{role}-{index}", "wb") as log:
            command = [sys.executable, str(PROGRAMS / f"{program}.py"), *arguments]
            tasks[f"{role}-{index}"] = subprocess.Popen(
                command, env=os.environ | VARIABLES | {"TF_CONFIG": config}, stdout=log, stderr=log
            )
    return tasks


def main(program: str, logs: Path, servers: int, workers: int, arguments: list[str]) -> int:
    """The exit code."""
    roles = {"ps": servers, "worker": workers} | ({"chief": 1} if program == "coordinator" else {})
    with addresses(sum(roles.values())) as free:
        cluster = {role: [next(free) for _ in range(count)] for role, count in roles.items()}
        tasks = started(program, logs, cluster, arguments)
        try:
            return ended("chief-0" if program == "coordinator" else "worker-0", tasks)
        finally:
            for task in tasks.values():
                task.kill()
                task.wait()


def ended(chief: str, tasks: dict[str, subprocess.Popen[bytes]]) -> int:
    """The exit code of the chief, or 1 if another task has failed."""
    while (code := tasks[chief].poll()) is None:
        if failed := {name: task.returncode for name, task in tasks.items() if task.poll()}:
            print(f"ended before their chief: {failed}", file=sys.stderr)
            return 1
        time.sleep(POLL_S)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]))
