"""An Application Master that says what a test tells it to say, over the real protocol."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from afo.errors import ClusterUnreachable
from afo.rpc import messages as m
from afo.rpc.client import AmAddress, write_address
from afo.rpc.server import RpcServer

#: Long enough for a loaded machine; reached only by a test that fails.
DEADLINE_S = 60.0

T = TypeVar("T")


def until(found: Callable[[], T], what: str) -> T:
    """The first true value of `found`. Raises `TimeoutError` saying `what` did not happen."""
    deadline = time.monotonic() + DEADLINE_S
    while not (value := found()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"did not happen: {what}")
        time.sleep(0.01)
    return value


class FakeMaster:
    """Answers every registration and heartbeat with `directive`, and keeps all that it hears."""

    def __init__(self, address_url: str, secret: str, incarnation: int = 1) -> None:
        self.directive = m.Directive(action="wait", generation=1, heartbeat_s=0.05)
        self.registrations: list[m.RegisterRequest] = []
        self.heartbeats: list[m.HeartbeatRequest] = []
        self.exits: list[m.ExitReport] = []
        self.orders: list[m.OrderResult] = []
        #: What Children are given who ask for delegation tokens; its number is in each directive.
        self.tokens = m.TokensReply(number=0, content=b"")
        #: Lets Children whose process failed stay.
        self.keeps = False
        self.silent = threading.Event()
        self._address_url, self._incarnation = address_url, incarnation
        handlers = {"Register": self._register, "Heartbeat": self._heartbeat, "ReportExit": self._exit}
        handlers |= {"ReportOrder": self._order, "Tokens": lambda _: self.tokens}
        self._server = RpcServer(handlers, secret, "127.0.0.1")
        self._server.start()

    def publish(self) -> None:
        """Be the AM that the address file names."""
        write_address(self._address_url, AmAddress(self._server.address, self._incarnation))

    def say(
        self, action: str, generation: int = 1, ps: tuple[str, ...] = (), starts: int = 0, since: int = 0
    ) -> None:  # fmt: skip
        """Change the directive."""
        self.directive = m.Directive(
            action=action, generation=generation, ps=ps, num_workers=2, splits_at_start=3, starts=starts,  # type: ignore[arg-type]
            heartbeat_s=0.05, since=since,
        )  # fmt: skip

    def order(self, number: int, kind: str, *argv: str) -> None:
        """Give an order with every directive from now on, as an AM does that is not sure of the Child."""
        order = m.Order(order=number, kind=kind, argv=argv)  # type: ignore[arg-type]
        self.directive = replace(self.directive, orders=(*self.directive.orders, order))

    def order_result(self, number: int) -> m.OrderResult:
        """Wait for what an order came to."""
        return until(lambda: [each for each in self.orders if each.order == number], f"a result of order {number}")[0]

    def heartbeat(self, matches: Callable[[m.HeartbeatRequest], bool], what: str) -> m.HeartbeatRequest:
        """Wait for a heartbeat, past or coming."""
        return until(lambda: next((beat for beat in reversed(self.heartbeats) if matches(beat)), None), what)

    def next_heartbeats(self, count: int = 2) -> None:
        """Wait until so many more have come: what was said before them has been obeyed."""
        seen = len(self.heartbeats)
        until(lambda: len(self.heartbeats) >= seen + count, f"{count} heartbeats")

    def exit_report(self) -> m.ExitReport:
        """Wait for the report of an end."""
        return until(lambda: self.exits, "an exit report")[0]

    def stop(self) -> None:
        """Stop answering."""
        self._server.stop(0.0)

    def _register(self, request: m.RegisterRequest) -> m.Directive:
        self.registrations.append(request)
        return self.directive

    def _heartbeat(self, request: m.HeartbeatRequest) -> m.Directive:
        if self.silent.is_set():
            raise ClusterUnreachable("cut off")
        self.heartbeats.append(request)
        return self.directive

    def _order(self, result: m.OrderResult) -> m.Empty:
        self.orders.append(result)
        return m.Empty()

    def _exit(self, report: m.ExitReport) -> m.ExitReply:
        self.exits.append(report)
        return m.ExitReply(stays=report.stays and self.keeps)
