"""`python -m afo_client.submission.job_file_reference`: the job file as Markdown, out of the types of `afo.job`."""

import inspect as python_inspect
import sys
from collections.abc import Iterator

import msgspec
from msgspec import inspect

from afo.formats.type_text import bare, describe_type, description, type_info
from afo.formats.units import Duration, Interval, Memory
from afo.job import Job
from afo.job.combinations import COMBINATIONS

_HEAD = """# The job file

This page is generated from the types in `afo/job/` by `python -m afo_client.submission.job_file_reference`; change it
there.

A job file is YAML (`afo validate JOB_FILE` checks one). Unknown keys, duplicate keys and YAML tags are errors. Paths
are relative to the job file's folder; `{{name}}` stands for a variable of `vars`, or of `--var name=value`, in `name`,
`args`, `on_end`, and the paths of `data`, `checkpoint` and `export`; if it is a date, `{{name-1}}` is the day before
and `{{name-6..name}}` seven paths. A `--var` that is not in `vars` and that nothing uses is an error. `--set a.b=c`
replaces any value. `null` is not the same as leaving a key out. Memory is below 2 PiB, and its
units are binary; a duration is at most 100 years.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_sections(type_info(Job), "", {}), *_combinations()])


def _combinations() -> Iterator[str]:
    yield "## Keys that need others"
    yield ""
    yield "| key | needs |"
    yield "|---|---|"
    for section, combinations in COMBINATIONS.items():
        for combination in combinations:
            keys = (f"`{section}.{key}`" if section else f"`{key}`" for key in combination.key.split(", "))
            yield f"| {', '.join(keys)} | {combination.needs} |"


def _sections(kind: inspect.Type, path: str, done: dict[type, str]) -> Iterator[str]:
    for struct in _structs(kind):
        yield f"## `{path}`" if path else "## Top level"
        yield ""
        if struct.cls in done:
            yield f"The same keys as `{done[struct.cls]}`."
            yield ""
            continue
        done[struct.cls] = path
        yield _sentence(struct.cls)
        yield ""
        yield "| key | value | default | meaning |"
        yield "|---|---|---|---|"
        yield from (_row(member) for member in struct.fields)
        yield ""
        for member in struct.fields:
            inner = f"{path}.{member.encode_name}" if path else member.encode_name
            yield from _sections(member.type, inner + _subkey(member), done)


def _structs(kind: inspect.Type) -> list[inspect.StructType]:
    kind = bare(kind)
    match kind:
        case inspect.StructType():
            return [kind]
        case inspect.UnionType():
            return [struct for part in kind.types for struct in _structs(part)]
        case inspect.DictType():
            return _structs(kind.value_type)
        case _:
            return []


def _subkey(member: inspect.Field) -> str:
    """`roles` holds a section for each `<role>`."""
    is_mapping = isinstance(bare(member.type), inspect.DictType)
    return f".<{member.encode_name.removesuffix('s')}>" if is_mapping else ""


def _sentence(cls: type) -> str:
    return python_inspect.cleandoc(cls.__doc__ or "")


def _row(member: inspect.Field) -> str:
    words = description(member.type)
    cells = (f"`{member.encode_name}`", _value(member.type), _default(member), words)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _value(kind: inspect.Type) -> str:
    inner = bare(kind)
    if isinstance(inner, inspect.StructType):
        return "section"
    if isinstance(inner, inspect.DictType) and _structs(inner):
        is_text = isinstance(bare(inner.key_type), inspect.StrType)
        return "a section for each by its name" if is_text else f"a section for each of {describe_type(inner.key_type)}"
    return describe_type(kind)


def _default(member: inspect.Field) -> str:
    if member.required:
        return "**required**"
    value = member.default_factory() if callable(member.default_factory) else member.default
    if value is msgspec.NODEFAULT or value in ("", (), {}):  # msgspec shows UNSET as having no default
        return ""
    if isinstance(value, msgspec.Struct) or any(isinstance(part, msgspec.Struct) for part in _values(value)):
        return "as below"
    text = str(value) if isinstance(value, Memory | Duration | Interval) else msgspec.json.encode(value).decode()
    return f"`{text}`"


def _values(value: object) -> list[object]:
    return list(value.values()) if isinstance(value, dict) else []


if __name__ == "__main__":
    sys.stdout.write(page())
