"""Mutants of the AM's table of transitions, budgets, restart policy, list of splits and what a message of which
generation counts for, made by cosmic-ray in memory.

Its operators change what functions compute. A table has nothing to compute, so there are two operators for rows.
"""

from __future__ import annotations

import ast
import difflib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.plugins import get_operator

#: What is mutated: the names, at the top of a module or in its class, whose lines count.
SCOPES = {
    "afo_am.state.tasks": ("TRANSITIONS", "move", "_leave", "_begin_again"),
    "afo_am.policy.restarts": (
        "decide_restart", "give_up_reason", "_fails_again", "memory_ends", "_times_of_exception",
        "pause_before_restart", "is_needed", "ends_generation", "holds", "generation_ended", "_cannot_keep",
    ),
    "afo_am.state.manual_repair": ("saved", "trained", "ran", "has_trained", "is_overdue"),
    "afo_am.state.split_queue": ("add", "_is_open", "finished"),
    "afo_am.policy.split_discovery": ("begin", "add", "_add"),
    "afo_am.state.job_state": ("stays", "generation_of"),
    "afo_am.core.child_rpc": ("_since",),
    "afo_am.core.training_rpc": ("servers", "_current", "_live", "_refuse_generation"),
    "afo_am.policy.lifecycle": ("_of_lost_generation",),
    "afo_am.state.apply": ("_blame", "_count_for_repair", "_container_requested", "_generation_ended"),
}  # fmt: skip

_CORE = (
    "AddNot", "NumberReplacer", "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue",
    "ReplaceUnaryOperator_Delete_Not", "ZeroIterationForLoop", "ReplaceBinaryOperator_Add_Sub",
    "ReplaceBinaryOperator_Sub_Add", "ReplaceBinaryOperator_Mul_Div", "ReplaceComparisonOperator_Gt_GtE",
    "ReplaceComparisonOperator_GtE_Gt", "ReplaceComparisonOperator_Lt_LtE", "ReplaceComparisonOperator_LtE_Lt",
    "ReplaceComparisonOperator_Gt_Lt", "ReplaceComparisonOperator_LtE_Gt", "ReplaceComparisonOperator_Eq_NotEq",
    "ReplaceComparisonOperator_NotEq_Eq", "ReplaceComparisonOperator_Is_IsNot", "ReplaceComparisonOperator_IsNot_Is",
)  # fmt: skip


class _OfRows(Operator):  # type: ignore[misc]
    """Finds the rows of a dict display whose values are names."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        if node.type == "dictorsetmaker" and len(node.children) > 3 and node.children[2].type == "name":
            for key in node.children[::4]:
                yield key.start_pos, key.end_pos


class DropRow(_OfRows):
    """Leaves a row of a table out."""

    def mutate(self, node: Any, index: int) -> Any:
        del node.children[4 * index : 4 * index + 4]
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """For cosmic-ray's own tests, and ours."""
        return (Example("T = {a: f, b: g, c: f}", "T = {a: f, c: f}", occurrence=1),)


class ChangeRow(_OfRows):
    """Gives a row the value of another one."""

    def mutate(self, node: Any, index: int) -> Any:
        values = node.children[2::4]
        value = values[index]
        value.value = next((each.value for each in values if each.value != value.value), value.value)
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """For cosmic-ray's own tests, and ours."""
        return (Example("T = {a: f, b: g, c: f}", "T = {a: f, b: f, c: f}", occurrence=1),)


@dataclass(frozen=True)
class Mutant:
    """One change of one module. `source` is the whole of it, changed; it is never written into the source tree."""

    module: str
    operator: str
    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.operator}: {self.before or '(nothing)'} → {self.after or '(nothing)'}"


def all_mutants() -> list[Mutant]:
    """Of all modules, each different change once."""
    found = {(each.module, each.source): each for module in SCOPES for each in _of_module(module)}
    return list(found.values())


def _of_module(module: str) -> Iterator[Mutant]:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    lines = set(_lines_of(source, SCOPES[module]))
    operators = {name: get_operator(f"core/{name}")() for name in _CORE}
    for name, operator in {**operators, "DropRow": DropRow(), "ChangeRow": ChangeRow()}.items():
        yield from (each for each in _by(module, source, name, operator) if each.line in lines)


def _by(module: str, source: str, name: str, operator: Operator) -> Iterator[Mutant]:
    occurrence = 0
    while (changed := mutate_code(source, operator, occurrence)) is not None:
        occurrence += 1
        if changed != source and _compiles(changed):
            yield Mutant(module, name, *_difference(source, changed), changed)


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _difference(before: str, after: str) -> tuple[int, str, str]:
    """The first changed line and what the change is."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    _, first, last, from_, to = next(each for each in matcher.get_opcodes() if each[0] != "equal")
    words = [
        " ".join(" ".join(lines).split()) for lines in (before.splitlines()[first:last], after.splitlines()[from_:to])
    ]
    return first + 1, words[0], words[1]


def _lines_of(source: str, names: tuple[str, ...]) -> Iterator[int]:
    for node in ast.walk(ast.parse(source)):
        name = getattr(node, "name", "") or getattr(getattr(node, "target", None), "id", "")
        if isinstance(node, ast.FunctionDef | ast.AnnAssign) and name in names:
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)
