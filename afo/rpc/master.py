"""The calls of the protocol as methods; what a Child, a trainer and the client use."""

import time
from typing import cast

from msgspec.structs import replace

from afo.rpc import messages as m
from afo.rpc.client import AmClient


class Master:
    """The Application Master as seen over the wire. Every method may raise what `AmClient.call` raises."""

    def __init__(self, client: AmClient) -> None:
        self._client = client

    def close(self) -> None:
        """Drop the connection."""
        self._client.close()

    def register(self, request: m.RegisterRequest) -> m.Directive:
        """A Child is up."""
        return cast(m.Directive, self._client.call("Register", request))

    def heartbeat(self, request: m.HeartbeatRequest, *, patience_s: float) -> m.Directive:
        """A Child lives; the reply says what it should be doing."""
        return cast(m.Directive, self._client.call("Heartbeat", request, patience_s=patience_s))

    def tokens(self, request: m.TokensRequest) -> m.TokensReply:
        """The newest delegation tokens."""
        return cast(m.TokensReply, self._client.call("Tokens", request, patience_s=0.0))

    def report_exit(self, report: m.ExitReport) -> m.ExitReply:
        """The TensorFlow process ended; the reply says whether its Child goes on. `idle_s` grows with each try."""
        began = time.monotonic()

        def grown() -> m.ExitReport:
            return replace(report, idle_s=report.idle_s + time.monotonic() - began)

        return cast(m.ExitReply, self._client.call("ReportExit", grown))

    def next_split(self, request: m.SplitRequest) -> m.SplitReply:
        """A file to read, or `wait`, or `end`."""
        return cast(m.SplitReply, self._client.call("NextSplit", request))

    def ack_split(self, ack: m.SplitAck) -> None:
        """A file's records were all applied."""
        self._client.call("AckSplit", ack)

    def report_ready(self, report: m.ReadyReport) -> None:
        """The chief prepared the variables."""
        self._client.call("ReportReady", report)

    def ready(self, request: m.ReadyRequest) -> m.ReadyReply:
        """May steps begin, and from which manifest."""
        return cast(m.ReadyReply, self._client.call("Ready", request))

    def servers(self, request: m.ServersRequest) -> m.ServersReply:
        """Where the parameter servers are, for a process that stays when one of them is lost (`Job.clients_stay`).

        To be asked when a server is gone, answers that it is of another generation, or a call raises `GenerationOver`.
        Who is told of a later generation goes over into it:

        - it drops what is in flight, and what it holds of splits: their leases are given back, and a `SplitRequest` of
          the new generation must name none of them. A split that it is given again has `resume`, as after a restart;
        - it names the new generation in every message, and in its `Progress`, whose counters begin at 0 again;
        - it asks `ready` before its first step; the chief prepares the variables, by the same reply as a new process.

        After `end` it ends with success, and its last `Progress` names the generation of the reply.

        Nothing that it says of the generation before counts any more. `wait`, and `run` of the generation that is
        known, are to be asked again after a moment; how long in all is the caller's affair. Raises `ProtocolError`
        where this attempt has ended.
        """
        return cast(m.ServersReply, self._client.call("Servers", request))

    def report_saving(self, report: m.SavingReport) -> None:
        """The chief is about to save."""
        self._client.call("ReportSaving", report)

    def report_checkpoint(self, report: m.CheckpointReport) -> m.CheckpointReply:
        """The chief wrote a manifest; the reply says which older ones must stay."""
        return cast(m.CheckpointReply, self._client.call("ReportCheckpoint", report))

    def next_version(self, request: m.VersionRequest) -> m.VersionReply:
        """The checkpoint that may become the next version. Waits for no Application Master, as training goes on."""
        return cast(m.VersionReply, self._client.call("NextVersion", request, patience_s=0.0))

    def report_version(self, report: m.VersionReport) -> None:
        """The chief exported a version of the model."""
        self._client.call("ReportVersion", report)

    def export(self, request: m.ExportRequest) -> m.ExportReply:
        """The chief has trained to the end: what may it export?"""
        return cast(m.ExportReply, self._client.call("Export", request))

    def report_eval(self, report: m.EvalReport) -> None:
        """The evaluator measured a checkpoint."""
        self._client.call("ReportEval", report)

    def status(self) -> m.StatusReply:
        """The job as the AM sees it."""
        return cast(m.StatusReply, self._client.call("Status", m.StatusRequest()))

    def kill(self, request: m.KillRequest) -> None:
        """End the job."""
        self._client.call("Kill", request)

    def scale(self, request: m.ScaleRequest) -> m.ScaleReply:
        """Have another number of workers. Raises `ProtocolError` where the job file does not allow it."""
        return cast(m.ScaleReply, self._client.call("Scale", request))

    def give_order(self, request: m.OrderRequest) -> int:
        """Have a live task do something; returns the order's number. Tried once: repeated, it would be two orders."""
        return cast(m.OrderReply, self._client.call("GiveOrder", request, patience_s=0.0)).order

    def order_status(self, order: int) -> m.OrderStatusReply:
        """What became of an order. Raises `NotFound` when the AM does not know it (any more)."""
        return cast(m.OrderStatusReply, self._client.call("OrderStatus", m.OrderStatusRequest(order=order)))

    def report_order(self, result: m.OrderResult) -> None:
        """An order is carried out; not repeated here, as the next heartbeat is another occasion."""
        self._client.call("ReportOrder", result, patience_s=0.0)
