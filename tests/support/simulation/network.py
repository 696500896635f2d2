"""Messages of Children and trainers that are lost, whose replies are lost, that come twice, late or out of order."""

from __future__ import annotations

import random
from collections.abc import Callable

from afo.errors import NotFound, PermissionDenied, ProtocolError
from afo.rpc import messages as m

#: Sent by Children and training processes; each is sent again by its sender until there is a reply.
OF_CHILDREN = frozenset(
    {
        m.RegisterRequest, m.HeartbeatRequest, m.ExitReport, m.SplitRequest, m.SplitAck, m.ReadyRequest, m.ReadyReport,
        m.ServersRequest,
        m.SavingReport, m.CheckpointReport, m.EvalReport, m.OrderResult,
    }
)  # fmt: skip
#: Copies under way at a time.
_MOST_LATE = 30


class Lost(Exception):
    """The sender hears nothing: its message, the reply, or the AM was lost."""


class Network:
    """Between Children and the AM."""

    def __init__(self, chance: random.Random, loss: float, repeats: float) -> None:
        self._random = chance
        #: Share of messages that are lost, half of them after the AM took them in; and of those that come again later.
        self.loss = loss
        self.repeats = repeats
        self.lost = 0
        self.repeated = 0
        self._late: list[object] = []

    def send(self, message: object, take: Callable[[object], m.Message | None]) -> m.Message | None:
        """Bring a message to the AM. Raises `Lost`, or what the AM answers with."""
        draw = self._random.random()
        if draw < self.loss / 2:
            self.lost += 1
            self._keep(message)
            raise Lost
        if draw > 1 - self.repeats:
            self._keep(message)
        reply = take(message)
        if draw < self.loss:
            self.lost += 1
            raise Lost
        return reply

    def _keep(self, message: object) -> None:
        if len(self._late) < _MOST_LATE:
            self._late.append(message)

    def deliver_late(self, take: Callable[[object], m.Message | None]) -> None:
        """Some of what is under way arrives now; nobody waits for the reply."""
        for message in [each for each in self._late if self._random.random() < 0.2]:
            self._late.remove(message)
            self.repeated += 1
            try:
                take(message)
            except (ProtocolError, PermissionDenied, NotFound, Lost):
                continue
