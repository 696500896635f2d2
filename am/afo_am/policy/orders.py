"""Orders of clients to live tasks, on their way to a Child and back. Pure.

Who asked for what of which task, and how it ended, is in the journal, without arguments and output. An AM that starts
again has lost those, so all that was under way has failed then; its Child may still carry it out.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from afo.errors import NotFound, ProtocolError
from afo.events import types as ev
from afo.rpc import messages as m
from afo_am.state.context import Context
from afo_am.state.tasks import Stage, Task

#: Orders of one task that are under way at a time.
MAX_OPEN = 8
#: Results that are kept, at most 256 KiB each; the oldest go first.
MAX_KEPT = 32
#: Of why an order failed, in the journal.
_PROBLEM_CHARACTERS = 500
#: Who asks when the AM itself wants to know something.
MASTER = "afo"


class _Given(Struct):
    """One order of this incarnation. Over when `result` is there."""

    task: m.TaskId
    order: m.Order
    #: A heartbeat named it: it is not sent again.
    taken: bool = False
    result: m.OrderResult | None = None


class Orders:
    """Part of the core that passes orders on."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: Hears of each result.
        self.listeners: list[Callable[[m.OrderResult], None]] = []
        self._given: dict[int, _Given] = {}

    def fail_lost(self) -> None:
        """This AM has started: what an earlier one was waiting for comes to nothing. Call before anything is given."""
        text = "the Application Master was restarted while this was under way; it may have been carried out"
        for given in list(self._context.state.open_orders.values()):
            self._given[given.order] = _Given(given.task, m.Order(order=given.order, kind=given.kind), taken=True)
            self.record_result(m.OrderResult(task=given.task, order=given.order, failed=True, output=text))

    def place(self, task: Task, kind: m.OrderKind, user: str, argv: tuple[str, ...] = ()) -> int:
        """Give an order to a task; returns its number. Raises `ProtocolError` where it cannot be carried out."""
        if task.stage is not Stage.REGISTERED or self._context.state.verdict:
            raise ProtocolError(f"{task.id} has no process at present: it is {task.stage}")
        if len(self.open_of(task.id)) >= MAX_OPEN:
            raise ProtocolError(f"{task.id} has {MAX_OPEN} orders to carry out already; wait for one of them")
        order = m.Order(order=self._context.state.orders + 1, kind=kind, argv=argv)
        program = argv[0] if argv and kind == "exec" else ""
        self._context.record(ev.OrderGiven(task=task.id, order=order.order, kind=kind, user=user, program=program))
        self._given[order.order] = _Given(task.id, order)
        self._forget()
        return order.order

    def status(self, order: int) -> m.OrderStatusReply:
        """What became of an order. Raises `NotFound`."""
        given = self._given.get(order)
        if given is None:
            text = f"it was never given, or its result was not kept (the last {MAX_KEPT} are): give it again"
            raise NotFound(f"there is no result of order {order}: {text}")
        if given.result is None:
            return m.OrderStatusReply(state="running" if given.taken else "waiting")
        result = given.result
        return m.OrderStatusReply(
            state="failed" if result.failed else "done", code=result.code, output=result.output,
            truncated=result.truncated,
        )  # fmt: skip

    # -- Children ----------------------------------------------------------------------------------------------------

    def confirm_taken(self, task: Task, taken: tuple[int, ...]) -> tuple[m.Order, ...]:
        """A Child names what it has taken; returns what it has not."""
        if not self._given:
            return ()
        for number in taken:
            if (given := self._given.get(number)) is not None:
                given.taken = True
        return tuple(given.order for given in self.open_of(task.id) if not given.taken)

    def record_result(self, result: m.OrderResult) -> m.Empty:
        """A Child carried one out. What nobody asked this incarnation for is dropped."""
        given = self._given.get(result.order)
        if given is not None and given.result is None and given.task == result.task:
            given.result = result
            problem = result.output[:_PROBLEM_CHARACTERS] if result.failed and given.order.kind != "exec" else ""
            self._context.record(
                ev.OrderDone(
                    task=result.task, order=result.order, failed=result.failed, code=result.code, problem=problem
                )
            )  # fmt: skip
            for hear in self.listeners:
                hear(result)
        return m.Empty()

    def task_ended(self, task_id: m.TaskId, cause: str) -> None:
        """An attempt is over, and with it what it was to do."""
        for given in self.open_of(task_id):
            text = f"attempt {task_id.attempt} of {task_id} ended before that was done: {cause}"
            self.record_result(m.OrderResult(task=task_id, order=given.order.order, failed=True, output=text))

    def open_of(self, task_id: m.TaskId) -> list[_Given]:
        """Orders of an attempt that are not over, oldest first."""
        return [given for given in self._given.values() if given.task == task_id and given.result is None]

    def is_read(self, task_id: m.TaskId) -> bool:
        """Whether the stacks of an attempt are asked for, and so its process may be stopped by its own Child."""
        return any(given.order.kind == "stacks" for given in self.open_of(task_id))

    def result_of(self, order: int) -> m.OrderResult | None:
        """What an order came to; None while it is under way, or was forgotten."""
        given = self._given.get(order)
        return given.result if given else None

    def _forget(self) -> None:
        over = [number for number, given in self._given.items() if given.result is not None]
        for number in over[:-MAX_KEPT]:
            del self._given[number]
