"""The calls of clients: kill the job, scale its workers, give orders to live tasks. Pure."""

from __future__ import annotations

from afo.errors import NotFound, PermissionDenied, ProtocolError
from afo.events import types as ev
from afo.rpc import messages as m
from afo_am.policy.orders import Orders
from afo_am.policy.scaling import Scaling
from afo_am.policy.verdict import decide
from afo_am.state.context import Context
from afo_am.state.tasks import Task


class ClientRpc:
    """Who may want what of a running job."""

    def __init__(self, context: Context, scaling: Scaling, orders: Orders) -> None:
        self._context, self._scaling, self._orders = context, scaling, orders

    def kill(self, request: m.KillRequest) -> m.Empty:
        """End the job, unless it has its verdict."""
        if not self._context.state.verdict:
            self._context.record(ev.KillRequested(user=request.user, reason=request.reason))
            reason = f"killed by {request.user}: {request.reason or 'no reason given'}"
            decide(self._context, "KILLED", "killed_by_user", reason)
        return m.Empty()

    def scale(self, request: m.ScaleRequest) -> m.ScaleReply:
        """Want another number of workers. Raises `ProtocolError` where the job file forbids it, or `NotFound`."""
        return self._scaling.scale(request.workers, request.user)

    def give_order(self, request: m.OrderRequest) -> m.OrderReply:
        """Take an order. Raises `PermissionDenied`, `NotFound`, or `ProtocolError` for a task that cannot take it."""
        self._check_right(request)
        if (request.kind in m.WITH_ARGUMENTS) != bool(request.argv):
            raise ProtocolError("`exec` needs a program to run, `profile` its seconds, and no other order an argument")
        order = self._orders.place(self._addressee(request), request.kind, request.user, request.argv)
        return m.OrderReply(order=order)

    def order_status(self, request: m.OrderStatusRequest) -> m.OrderStatusReply:
        """What became of an order. Raises `NotFound`."""
        return self._orders.status(request.order)

    def _check_right(self, request: m.OrderRequest) -> None:
        config = self._context.state.config
        if request.user == config.user:
            return
        # What `exec` runs may do all that the owner may.
        if request.kind == "exec" or not config.job.acls.may_modify(request.user):
            who = f"only {config.user}, whose job this is,"
            raise PermissionDenied(f"{who} gives this order to its tasks, not {request.user}; see `acls.modify`")

    def _addressee(self, request: m.OrderRequest) -> Task:
        state = self._context.state
        if request.kind == "checkpoint":
            return state.chief
        task = state.tasks.get((request.role, request.index))
        if task is None:
            names = ", ".join(str(task.id) for task in list(state.tasks.values())[:20])
            raise NotFound(f"the job has no task {request.role}:{request.index}; it has {names}")
        return task
