"""Glob patterns: `*`, `?`, `[abc]`, `[a-z]`, `[!a]`, `{a,b}` (nested, also across `/`), and `\\` before a literal one.

No wildcard crosses a `/`, and as in a shell none matches a leading `.`; nor a leading `_`, because that is how Hadoop
marks what is not data (`_SUCCESS`, `_temporary`). A component that spells the `.` or `_` itself matches it.
"""

from __future__ import annotations

import re

from afo.errors import StorageError

_MAGIC = re.compile(r"(?<!\\)(?:\\\\)*[*?\[]")
HIDDEN = (".", "_")
MAX_ALTERNATIVES = 10_000


def has_wildcard(component: str) -> bool:
    """Whether a component without braces matches more than one name."""
    return _MAGIC.search(component) is not None


def unescape(component: str) -> str:
    """The name that a component without wildcards stands for."""
    return re.sub(r"\\(.)", r"\1", component)


def escape(text: str) -> str:
    """A pattern that matches just `text`."""
    return re.sub(r"([*?\[\]{}\\,])", r"\\\1", text)


def component_matcher(component: str) -> re.Pattern[str]:
    """A compiled expression for whole names. Raises StorageError for an unclosed `[`."""
    hidden = "" if component.startswith(HIDDEN) else r"(?![._])"
    return re.compile(f"{hidden}{_translate(component)}", re.DOTALL)


def _translate(component: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(component):
        char = component[at]
        at += 1
        if char == "*":
            out.append(".*")
        elif char == "?":
            out.append(".")
        elif char == "[":
            expression, at = _character_class(component, at)
            out.append(expression)
        elif char == "\\" and at < len(component):
            out.append(re.escape(component[at]))
            at += 1
        else:
            out.append(re.escape(char))
    return "".join(out)


def _character_class(component: str, start: int) -> tuple[str, int]:
    """Translates what follows a `[`; returns the expression and the offset behind the `]`."""
    negated = component[start : start + 1] in ("!", "^")
    first = start + negated
    end = component.find("]", first + 1)
    if end < 0:
        raise StorageError(
            rf"pattern {component!r}: '[' at offset {start - 1} is never closed; write \[ for a literal one"
        )
    body = re.sub(r"([\\\[\]&~|^])", r"\\\1", component[first:end])
    try:
        re.compile(f"[{body}]")
    except re.error as error:
        raise StorageError(f"pattern {component!r}: [{component[first:end]}] is no character range: {error}") from None
    return f"[{'^' if negated else ''}{body}]", end + 1


def expand_braces(pattern: str) -> list[str]:
    """The patterns without braces that `pattern` stands for, in order, doubles removed.

    Raises StorageError for unbalanced braces and for more than MAX_ALTERNATIVES results.
    """
    done: dict[str, None] = {}
    todo = [pattern]
    while todo:
        current = todo.pop()
        group = _first_group(current)
        if group is None:
            done[current] = None
        else:
            start, end, alternatives = group
            todo.extend(current[:start] + alternative + current[end:] for alternative in reversed(alternatives))
        if len(done) + len(todo) > MAX_ALTERNATIVES:
            raise StorageError(
                f"pattern {pattern!r} stands for more than {MAX_ALTERNATIVES} patterns; write fewer braces"
            )
    return list(done)


def _first_group(pattern: str) -> tuple[int, int, list[str]] | None:
    """The outermost first `{…}`: its bounds and alternatives; None where there is none."""
    depth, start, piece = 0, -1, 0
    alternatives: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif char == "{":
            depth += 1
            if depth == 1:
                start, piece = at, at + 1
        elif char == "}":
            depth -= 1
            if depth < 0:
                raise StorageError(
                    rf"pattern {pattern!r}: '}}' at offset {at} closes nothing; write \}} for a literal one"
                )
            if depth == 0:
                return start, at + 1, [*alternatives, pattern[piece:at]]
        elif char == "," and depth == 1:
            alternatives.append(pattern[piece:at])
            piece = at + 1
        at += 1
    if depth:
        raise StorageError(rf"pattern {pattern!r}: '{{' at offset {start} is never closed; write \{{ for a literal one")
    return None
