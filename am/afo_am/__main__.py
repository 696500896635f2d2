"""`python -m afo_am AM_CONFIG_JSON`: one start of an Application Master. Exit code 0: the verdict is reached."""

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from afo import __version__, storage
from afo.errors import AfoError, SpecError
from afo.events import types as ev
from afo.formats import json_file
from afo.hadoop import kerberos
from afo.job.paths import JobPaths
from afo.job_dir import lineage
from afo.process import descriptors
from afo.process.hosts import advertised_host
from afo.protocol.am_config import AmConfig
from afo.rpc.client import AmAddress, write_address
from afo.rpc.server import RpcServer
from afo.rpc.wire import METHODS, read_secret
from afo.yarn.submission import KEYTAB
from afo_am.core.core import Core
from afo_am.engine.driver import Driver
from afo_am.engine.journal import Journal, await_room
from afo_am.engine.metrics import serve_metrics
from afo_am.engine.replay import read_earlier
from afo_am.engine.tokens import TokenKeeper
from afo_am.runtime import make_runtime
from afo_am.runtime.application_attempt import application_attempt
from afo_am.supervisor import pulse

log = logging.getLogger("afo.am")

#: A heartbeat is decided in the thread that brought it, under one lock: more threads only wait for each other, and
#: 16 of them cost a third of the AM's time (benchmarks/bench_am_scale.py).
_RPC_THREADS = 4
#: Connections to the AM: a Child and its process have one each, and old ones may linger; the rest is for clients, and
#: for strangers until their handshake is due. Each of theirs costs 50 to 100 KB of memory, of which the AM's container
#: has 1 GiB by default: descriptors alone are too wide a bound.
_CONNECTIONS_A_TASK, _CONNECTIONS_BESIDE = 3, 256
#: How long a start of the AM waits for the file system that holds its journal; a NameNode's fail-over or safe mode.
PATIENCE_S = 900.0


def main(argv: list[str]) -> int:
    """Run one incarnation of the AM of the job described by the file `argv[1]`."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    if len(argv) != 2:
        print("usage: python -m afo_am AM_CONFIG_JSON", file=sys.stderr)
        return 2
    descriptors.raise_limit()
    pulse.begin()
    try:
        run(read_config(argv[1]))
    except AfoError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def read_config(path: str) -> AmConfig:
    """Raises `NotFound`, or `SpecError` if the file is malformed or of another version of afo."""
    config = json_file.read(path, AmConfig)
    if config.afo_version != __version__:
        raise SpecError(
            f"the job was submitted with afo {config.afo_version}, the AM's container has {__version__}; put the same "
            "version into `environment.python`"
        )
    return config


def run(config: AmConfig) -> None:
    """Until the job is finished. Raises `AfoError`."""
    with _tokens(config) as tokens:
        _run(config, tokens)


def _run(config: AmConfig, tokens: TokenKeeper) -> None:
    paths = JobPaths(config.jobs_root, config.job_id or os.environ["SKEIN_APPLICATION_ID"])
    am_attempt, incarnation = application_attempt(), int(os.environ.get("AFO_AM_INCARNATION", "1"))
    # A start that ended at once would be counted, and the next one would find the same disk full.
    waited_for = await_room(paths.dir, PATIENCE_S)
    core = Core(config, now=time.monotonic())
    # Likewise of a NameNode that is away.
    earlier = storage.patiently(lambda: read_earlier(paths, config.job.checkpoint.dir), PATIENCE_S)
    for record in earlier.records:
        core.replay(record.event, record.time)
    incarnation = max(incarnation, core.state.incarnation + 1)
    _publish_job(config, paths)
    runtime = make_runtime(config, paths)
    driver = Driver(core, Journal(paths, am_attempt, incarnation, earlier.last_seq), runtime, paths)
    host = advertised_host(config.runtime)
    handlers = {**dict.fromkeys(METHODS, tokens.wrap_handler(driver.ask)), "Tokens": tokens.give}
    server = RpcServer(
        handlers, read_secret(config.secret_file), host, threads=_RPC_THREADS, connections=_connections(config)
    )
    server.start()
    try:
        write_address(paths.address, AmAddress(address=server.address, incarnation=incarnation))
        with _metrics(config, driver, host) as metrics:
            driver.run(
                ev.AmStarted(
                    am_attempt=am_attempt, incarnation=incarnation, address=server.address, host=host, pid=os.getpid(),
                    metrics=metrics, waited_for=waited_for,
                    previous_end=os.environ.get("AFO_AM_PREVIOUS_END", ""),
                )
            )  # fmt: skip
    finally:
        server.stop()
        runtime.close()


def _connections(config: AmConfig) -> int:
    tasks = sum(spec.count for spec in config.job.roles.values())
    return _CONNECTIONS_A_TASK * tasks + _CONNECTIONS_BESIDE


@contextmanager
def _tokens(config: AmConfig) -> Iterator[TokenKeeper]:
    """New ones for a job that was submitted with a keytab."""
    keeper = TokenKeeper(config.user)
    if not config.principal:
        yield keeper
        return
    os.environ.update(
        {kerberos.KEYTAB: f"FILE:{Path(KEYTAB).absolute()}", "KRB5CCNAME": str(Path("afo-tickets").absolute())}
    )
    keeper.start()
    try:
        yield keeper
    finally:
        keeper.stop()


@contextmanager
def _metrics(config: AmConfig, driver: Driver, host: str) -> Iterator[str]:
    """Where they are; '' for a job that wants none."""
    if not config.job.am.metrics:
        yield ""
        return
    with serve_metrics(driver.status, host) as address:
        yield address


def _publish_job(config: AmConfig, paths: JobPaths) -> None:
    storage.make_dirs(paths.dir, mode=0o700)  # job.json holds the environment of the tasks
    storage.make_dirs(paths.events)
    # The client writes `job.json` alone, right after the submission.
    if not (storage.exists(paths.files) and storage.exists(paths.job)):
        storage.write_bytes(paths.schema, Path(config.schema_file).read_bytes())
        lineage.write_files(paths.files, config.splits)
        storage.write_bytes(paths.job, json_file.encode(config))


if __name__ == "__main__":
    sys.exit(main(sys.argv))
