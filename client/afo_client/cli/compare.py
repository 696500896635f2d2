"""`afo compare`."""

from contextlib import closing

import click
import msgspec

from afo import storage
from afo.data.schema import parse_schema
from afo.errors import NotFound, SpecError, UsageError
from afo.formats.decoding import Malformed, whole
from afo.job_dir.code_snapshot import (
    MOST_BYTES,
    CodeDifference,
    CodeSnapshot,
    LineChanges,
    compare_snapshots,
    decode_snapshot,
)
from afo.protocol.am_config import AmConfig
from afo.site.config import Config, load_config
from afo_client.cli.job_argument import JobType
from afo_client.cli.options import examples
from afo_client.jobs.job_comparison import Difference, differences, figures, schema_differences
from afo_client.jobs.ref import JobRef, find_job
from afo_client.jobs.training_files import count_files
from afo_client.jobs.view import JobView
from afo_client.jobs.watch import JobWatch
from afo_client.runtimes.choice import runtime_for
from afo_client.submission.submitted import need_config
from afo_client.terminal.console import print_json, print_result, say, table

#: A cell's longest text; --json has all of it.
_CELL = 60
#: Lines of code that are shown of a file; --json has all.
_LINES = 40
_Figures = dict[str, float | str | None]


@click.command(
    help="Show two jobs side by side: settings, schemas and code that differ, metrics, samples per second, cost. "
    "B left out: the job submitted last.",
    epilog=examples("afo compare application_1700000000000_0001",
                    "afo compare local_1700000000000_0001 local_1700000000000_0002 --json"),
)  # fmt: skip
@click.argument("a", metavar="A", type=JobType())
@click.argument("b", metavar="[B]", required=False, type=JobType())
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(a: str, b: str | None, as_json: bool) -> None:
    """Compare; the exit code is 0 whether they differ or not."""
    config = load_config()
    refs = find_job(config, a), find_job(config, b)
    if refs[0].job_id == refs[1].job_id:
        raise UsageError(f"{refs[0].job_id} is compared with itself; name two jobs (`afo ls` shows them)")
    sides = [_side(config, ref) for ref in refs]
    settings = differences(sides[0][1].job, sides[1][1].job) + _of_schemas(refs)
    code = _of_code(refs)
    files = [count_files(ref.paths.events, submitted) for ref, (_, submitted) in zip(refs, sides, strict=True)]
    numbers = [figures(view, number) for (view, _), number in zip(sides, files, strict=True)]
    if as_json:
        print_json(
            {"a": _side_json(refs[0], numbers[0]), "b": _side_json(refs[1], numbers[1]),
             "settings": msgspec.to_builtins(settings), "code": None if code is None else msgspec.to_builtins(code)}
        )  # fmt: skip
    else:
        print_result("\n".join([_text(refs, settings, numbers), *_code_text(code or [])]))


def _side(config: Config, ref: JobRef) -> tuple[JobView, AmConfig]:
    with closing(JobWatch(ref, runtime_for(ref.runtime, config))) as watch:
        return watch.look(), need_config(config, ref)


def _of_schemas(refs: tuple[JobRef, JobRef]) -> list[Difference]:
    """Nothing where one of them is gone or damaged: the settings are told all the same, and a line says why."""
    try:
        a, b = (parse_schema(whole(ref.paths.schema), ref.paths.schema) for ref in refs)
    except (Malformed, NotFound, SpecError) as error:
        say(f"the schemas are not compared: {error}")
        return []
    return schema_differences(a, b)


def _of_code(refs: tuple[JobRef, JobRef]) -> list[CodeDifference] | None:
    """As `code_snapshot.compare_snapshots`; a line says what is not compared, and why."""
    differ, problem = compare_snapshots({ref.job_id: _code(ref) for ref in refs})
    if problem:
        say(problem)
    return differ


def _code(ref: JobRef) -> CodeSnapshot | None:
    try:
        with storage.open_input(ref.paths.code) as file:
            return decode_snapshot(file.read(MOST_BYTES + 1), ref.paths.code)
    except NotFound:
        return None
    except Malformed as error:
        say(f"warning: {error}")
        return None


def _code_text(code: list[CodeDifference]) -> list[str]:
    lines = []
    for file in code:
        sums = " ".join(digest[:12] or "-" for digest in file.sha256)
        lines += [f"code {file.path} differs: {sums}", *_line_text(file.lines)]
    return lines


def _line_text(changes: LineChanges | None) -> list[str]:
    if changes is None:
        return []
    both = [f"  {sign}{number:>5} {line}" for sign, lines in (("-", changes.removed), ("+", changes.added))
            for number, line in lines]  # fmt: skip
    more = [f"  {len(both) - _LINES:,} more: --json"] if len(both) > _LINES else []
    return [*both[:_LINES], *more] if both else ["  its lines are the same ones in another order"]


def _side_json(ref: JobRef, numbers: _Figures) -> dict[str, object]:
    metrics = {name.partition(".")[2]: value for name, value in numbers.items() if name.startswith("metrics.")}
    rest = {name: value for name, value in numbers.items() if not name.startswith("metrics.")}
    return {"application_id": ref.job_id, **rest, "metrics": metrics}


def _text(refs: tuple[JobRef, JobRef], settings: list[Difference], numbers: list[_Figures]) -> str:
    names = [
        name for name in dict.fromkeys((*numbers[0], *numbers[1])) if any(_has(values, name) for values in numbers)
    ]
    rows = [(name, *(_figure(name, values.get(name)) for values in numbers)) for name in names]
    rows += [(difference.path, _cell(difference.a), _cell(difference.b)) for difference in settings]
    lines = table(("", refs[0].job_id, refs[1].job_id), rows)
    return lines if settings else f"{lines}\nno setting differs"


def _has(numbers: _Figures, name: str) -> bool:
    return numbers.get(name) is not None


def _figure(name: str, value: float | str | None) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.0%}" if name == "input_wait" and isinstance(value, float) else _cell(value)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"
