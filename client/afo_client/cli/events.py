"""`afo events`."""

import time

import click
import msgspec

from afo import storage
from afo.events.event_log import Record, UnknownRecord
from afo.events.event_tail import EventTail
from afo.site.config import load_config
from afo_client.cli.job_argument import JobType
from afo_client.cli.options import examples
from afo_client.jobs.ref import JobRef, find_job
from afo_client.jobs.watch import JobWatch
from afo_client.runtimes.choice import runtime_for
from afo_client.terminal.console import iso, json_line, print_result, say, without_control

_POLL_S = 0.5
#: An event's longest value in a line for people; --json has all of it.
_VALUE_CHARACTERS = 200


@click.command(
    help="Print what happened to a job, one event a line. JOB left out: the one submitted last.",
    epilog=examples("afo events -f", "afo events application_1700000000000_0001 --json"),
)
@click.argument("job", required=False, type=JobType())
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(job: str | None, follow: bool, as_json: bool) -> None:
    """Print the event log."""
    config = load_config()
    ref = find_job(config, job)
    watch = JobWatch(ref, runtime_for(ref.runtime, config))
    tail, ended = EventTail(ref.paths.events), not follow
    try:
        while True:
            for record in tail.poll():
                print_result(_json(record) if as_json else _text(record))
            if ended:
                _say_what_is_missing(tail)
                return
            ended = _has_ended(ref, watch)
            time.sleep(0 if ended else _POLL_S)
    finally:
        watch.close()


def _has_ended(ref: JobRef, watch: JobWatch) -> bool:
    return storage.exists(ref.paths.verdict) or watch.look().ended


def _say_what_is_missing(tail: EventTail) -> None:
    if tail.damage:
        say(tail.damage)
    if tail.unread:
        say(
            f"the end of {tail.unread} cannot be read: the Application Master has it open, or died with it open; HDFS"
            " closes it after a while, or `hdfs debug recoverLease -path` at once"
        )


def _fields(record: Record | UnknownRecord) -> dict[str, object]:
    if isinstance(record, UnknownRecord):
        return record.event.raw
    fields: dict[str, object] = msgspec.to_builtins(record.event)
    return fields


def _json(record: Record | UnknownRecord) -> str:
    return json_line(
        {"seq": record.seq, "time": iso(record.time), "am_attempt": record.am_attempt,
         "incarnation": record.incarnation, "event": _fields(record)}
    )  # fmt: skip


def _text(record: Record | UnknownRecord) -> str:
    fields = _fields(record)
    kind = fields.pop("type", "?")
    shown = " ".join(f"{name}={_value(value)}" for name, value in fields.items() if value not in ("", None, {}, []))
    return without_control(f"{iso(record.time)} {kind} {shown}".rstrip())


def _value(value: object) -> str:
    if isinstance(value, dict) and {"role", "index", "attempt"} <= value.keys():
        return f"{value['role']}:{value['index']}/{value['attempt']}"
    text = value if isinstance(value, str) and value.isprintable() and " " not in value else repr(value)
    return text if len(text) <= _VALUE_CHARACTERS else text[: _VALUE_CHARACTERS - 1] + "…"
