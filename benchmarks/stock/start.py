"""Starts a program of this folder in every task, as a user's script does, and ends the servers when it is done.

start.py PROGRAM LOGS SERVERS WORKERS ARGUMENT… runs the program with TF_CONFIG; each task writes LOGS/<role>-<index>.
A coordinator gets a chief of its own, between graphs worker 0 is the chief. The exit code is 0 if all trainers end so.
"""

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

PROGRAMS = Path(__file__).parent


def addresses(count: int) -> list[str]:
    """Of this machine, with ports that are free now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]


def started(
    program: str, logs: Path, cluster: dict[str, list[str]], arguments: list[str]
) -> dict[str, subprocess.Popen[bytes]]:
    """The tasks by name."""
    tasks = {}
    for role, index in [(role, index) for role, of_role in cluster.items() for index in range(len(of_role))]:
        config = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
        environment = {**os.environ, "TF_CONFIG": config, "TF_CPP_MIN_LOG_LEVEL": "2", "GRPC_FAIL_FAST": "use_caller"}
        with open(logs / f"{role}-{index}", "wb") as log:
            command = [sys.executable, str(PROGRAMS / f"{program}.py"), *arguments]
            tasks[f"{role}-{index}"] = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    return tasks


def main(program: str, logs: Path, servers: int, workers: int, arguments: list[str]) -> int:
    """0 if all trainers end with 0: of a coordinator its chief, else the workers."""
    coordinated = program == "coordinator"
    roles = {"ps": servers, "worker": workers} | ({"chief": 1} if coordinated else {})
    free = iter(addresses(sum(roles.values())))
    tasks = started(program, logs, {role: [next(free) for _ in range(n)] for role, n in roles.items()}, arguments)
    trainers = [task for name, task in tasks.items() if name.startswith("chief" if coordinated else "worker")]
    try:
        return max(abs(trainer.wait()) for trainer in trainers)
    finally:
        for task in tasks.values():
            task.kill()
            task.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]))
