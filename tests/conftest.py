"""What holds for every test: no leaked process, thread or listening port; hypothesis without a clock."""

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import settings

from selection import Selection

# How long an example takes says more about the machine's neighbours than about the code. (Where `CI` is set, hypothesis
# itself sees to it that the examples depend on the code alone.)
settings.register_profile("afo", deadline=None)
settings.load_profile("afo")

# A shell starts what runs in the background with Ctrl-C ignored, and programs of tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: What a test started may need this long to go away by itself.
GRACE_S = 5.0


def _alive() -> dict[str, set[str]]:
    """Threads, child processes and listening ports of this process, by name.

    Children alone: what a daemon of a fixture starts, say a NodeManager for an application of an earlier test, is its.
    """
    me = psutil.Process()
    ports = {str(each.laddr) for each in me.net_connections(kind="inet") if each.status == psutil.CONN_LISTEN}
    children = {f"{child.pid}" for child in me.children() if _runs(child)}
    threads = {f"{thread.name} ({thread.ident})" for thread in threading.enumerate() if thread.is_alive()}
    return {"threads": threads, "processes": children, "listening ports": ports}


def _runs(process: psutil.Process) -> bool:
    try:
        # Python keeps its one resource tracker and its one fork server for as long as it lives.
        kept = any("multiprocessing.resource_tracker" in word or "forkserver" in word for word in process.cmdline())
        return process.status() != psutil.STATUS_ZOMBIE and not kept
    except psutil.NoSuchProcess:
        return False


_AT_CALL = pytest.StashKey[dict[str, set[str]]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Notes what fixtures hold when the test itself begins."""
    item.stash[_AT_CALL] = _alive()
    yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fails a test that leaves something behind which was not there when it began."""
    yield
    before = item.stash.get(_AT_CALL, None)
    if before is None or item.get_closest_marker("hadoop"):  # the fixture of the cluster looks after its daemons
        return
    deadline = time.monotonic() + GRACE_S
    while leaked := {kind: sorted(now - before[kind]) for kind, now in _alive().items() if now - before[kind]}:
        if time.monotonic() > deadline:
            pytest.fail(f"{item.nodeid} leaked {leaked}")
        time.sleep(0.05)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of `selection`."""
    parser.addoption("--slice", metavar="DAY:SECONDS", help="of the chosen tests those of a day, a budget of seconds")
    parser.addoption("--durations-file", type=Path, help="append each test's seconds to this file, in JSON")
    parser.addoption("--failures-file", type=Path, help="append each failure's output to this file, in JSON")


def pytest_configure(config: pytest.Config) -> None:
    """What the options ask for."""
    config.pluginmanager.register(Selection(config), "afo-selection")
