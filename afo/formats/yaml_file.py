"""A YAML tree into a msgspec type; what does not fit is said with file, line, `$.path`, value and what is allowed."""

import difflib
import re
from typing import TypeVar

import msgspec
from msgspec import inspect

from afo.errors import SpecError
from afo.formats.decoding import known
from afo.formats.type_text import alternatives, bare, describe_type, type_at, type_info
from afo.formats.units import parse_quantity
from afo.formats.yaml_tree import Document, Steps, Value, path_text

_T = TypeVar("_T")
_WHERE = re.compile(r"(?P<what>.*) - at (?P<key>`key` in )?`(?P<path>\$[^`]*)`", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>\w+)|\[(?P<index>\d+)\]|(?P<any>\[\.\.\.\])")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_KEY = re.compile(r"Invalid enum value '(.*)'", re.DOTALL)
_NAMED = re.compile(r"`([a-z_]+(?:\.[a-z_]+)*)`")


def convert(document: Document, kind: type[_T]) -> _T:
    """The document as `kind`. Raises `SpecError` about the first thing that does not fit."""
    try:
        return msgspec.convert(document.value, known(kind), dec_hook=parse_quantity)
    except msgspec.ValidationError as error:
        raise SpecError(_explain(str(error), document, kind)) from error


def _explain(error: str, document: Document, kind: type) -> str:
    match = _WHERE.fullmatch(error)
    what, pattern = (match["what"], match["path"]) if match else (error, "$")
    steps = _locate(pattern, document.value, kind, error)
    of_key = bool(match and match["key"])
    info = type_at(type_info(kind), steps)
    return _sentence(what, steps, of_key, document, info)


def _sentence(what: str, steps: Steps, of_key: bool, document: Document, info: inspect.Type | None) -> str:
    if unknown := _UNKNOWN.fullmatch(what):
        return _unknown_key(unknown[1], _keys(info), steps, document, _guess_section(unknown[1], info))
    if of_key and (bad := _KEY.fullmatch(what)) and isinstance(info, inspect.DictType):
        key_type = bare(info.key_type)
        names = [str(value) for value in key_type.values] if isinstance(key_type, inspect.LiteralType) else []
        return _unknown_key(bad[1], names, steps, document)
    if missing := _MISSING.fullmatch(what):
        inner = type_at(info, (missing[1],)) if info else None
        hint = f": {describe_type(inner)}" if inner else ""
        return f"{document.place(steps)}: {path_text(steps)}: `{missing[1]}` is missing; add it{hint}"
    if (
        not what.startswith(("Expected ", "Invalid ")) or info is None
    ):  # our own words: afo.formats.units, __post_init__
        at = _find_named_key(what, steps, document.value)
        return f"{document.place(at)}: {path_text(at)}: {what}"
    head = f"{document.place(steps)}: {path_text(steps)}: "
    value, wanted = _value_at(document.value, steps), describe_type(info)
    hint = guess(value, _words(info)) or _guess_form(value, info) if isinstance(value, str) else ""
    quote = "; put it in quotes" if wanted.startswith("text") and isinstance(value, int | float) else ""
    return f"{head}{_describe_value(value)} does not fit; {hint}allowed: {wanted}{quote}"


def _find_named_key(what: str, steps: Steps, root: Value) -> Steps:
    """The key that our own words name first, as far as it was written: a check of several keys stands above them."""
    named = _NAMED.search(what)
    for step in named[1].split(".") if named else ():
        inner = _value_at(root, steps)
        if not isinstance(inner, dict) or step not in inner:
            break
        steps = (*steps, step)
    return steps


def _unknown_key(key: str, names: list[str], steps: Steps, document: Document, hint: str = "") -> str:
    hint, at = hint or guess(key, names), (*steps, key)
    return f"{document.place(at)}: {path_text(at)}: unknown key `{key}`; {hint}allowed: {', '.join(sorted(names))}"


def guess(word: str, names: list[str]) -> str:
    """A question about the nearest name, the one that begins like the word or has it as its initials; else ''."""
    longer = [name for name in names if len(word) > 1 and (name.startswith(word) or word.startswith(name))]
    initials = [name for name in names if len(word) > 1 and "".join(part[:1] for part in name.split("_")) == word]
    near = difflib.get_close_matches(word, names, n=1) or longer or initials
    return f"did you mean `{near[0]}`? " if near else ""


def _guess_section(key: str, info: inspect.Type | None) -> str:
    """Where a key belongs that stands above the sections, or choices, that have it; '' where none does."""
    sections = []
    for member in _members(info):
        kind, name = bare(member.type), member.encode_name
        if isinstance(kind, inspect.DictType):
            kind, name = bare(kind.value_type), f"{name}.…"
        if key in _keys(kind):
            sections.append(f"`{name}`")
    return f"it belongs under {alternatives(sections)}; " if sections else ""


def _guess_form(word: str, info: inspect.Type) -> str:
    """How a mapping is written of which somebody wrote the key alone: `adam` for `{adam: {}}`."""
    is_section = any(member.encode_name == word and _keys(bare(member.type)) for member in _members(info))
    return f"write `{{{word}: {{}}}}`; " if is_section else _guess_section(word, info)


def _words(info: inspect.Type) -> list[str]:
    info = bare(info)
    if isinstance(info, inspect.UnionType):
        return [word for part in info.types for word in _words(part)]
    return [str(value) for value in info.values if value] if isinstance(info, inspect.LiteralType) else []


def _keys(info: inspect.Type | None) -> list[str]:
    return [member.encode_name for member in _members(info)]


def _members(info: inspect.Type | None) -> list[inspect.Field]:
    if isinstance(info, inspect.UnionType):
        return [member for part in info.types for member in _members(bare(part))]
    return list(info.fields) if isinstance(info, inspect.StructType) else []


def _describe_value(value: Value) -> str:
    match value:
        case dict():
            return "a mapping"
        case list():
            return "a list" if value else "an empty list"
        case None:
            return "nothing (null)"
        case bool():
            return str(value).lower()
        case _:
            text = repr(value)
            return text if len(text) <= 80 else text[:77] + "…"


def _value_at(value: Value, steps: Steps) -> Value:
    for step in steps:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
    return value


def _locate(pattern: str, root: Value, kind: type, error: str) -> Steps:
    """The exact place behind msgspec's `$.roles[...].memory`, which leaves keys of mappings out."""
    steps: Steps = ()
    for match in _STEP.finditer(pattern):
        if match["any"]:
            steps = (*steps, _culprit(root, steps, kind, error))
        else:
            steps = (*steps, match["name"] if match["index"] is None else int(match["index"]))
    return steps


def _culprit(root: Value, steps: Steps, kind: type, error: str) -> str:
    """The first key of the mapping at `steps` which alone brings about the same error."""
    mapping = _value_at(root, steps)
    keys = list(mapping) if isinstance(mapping, dict) else []
    for key in keys:
        try:
            msgspec.convert(_with_only(root, steps, key), kind, dec_hook=parse_quantity)
        except msgspec.ValidationError as other:
            if str(other) == error:
                return key
    return keys[0] if keys else ""


def _with_only(value: Value, steps: Steps, key: str) -> Value:
    if not steps:
        return {key: value[key]} if isinstance(value, dict) else value
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict) and isinstance(step, str):
        return {**value, step: _with_only(value[step], rest, key)}
    if isinstance(value, list) and isinstance(step, int):
        return [*value[:step], _with_only(value[step], rest, key), *value[step + 1 :]]
    return value
