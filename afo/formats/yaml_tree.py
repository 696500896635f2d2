"""YAML read safely: a bounded tree of plain values that knows on which line each of them stands.

What may come from anywhere is bounded before it is built: size, depth, and the weight of the tree with all aliases
expanded (a few hundred bytes of aliases of aliases can otherwise name billions of nodes). Tags are refused and
duplicate keys are errors. Plain scalars follow the core schema of YAML 1.2: `1e-3` is a number; `on`, `12:30` and
`2026-11-19` are text.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from afo.errors import NotFound, SpecError
from afo.storage.regular_file import open_regular

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_NODES = 100_000

#: Where a value stands in the tree: keys and list indices from the root.
Steps = tuple[str | int, ...]
Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]

# libyaml where PyYAML was built with it: twenty times as fast, the same nodes.
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
#: Descriptors of this process, which a shell made: their writer is there, so that reading them comes to an end.
_GIVEN = re.compile(r"/dev/stdin|/(dev|proc/self)/fd/[0-9]+")
_CONSTANTS: dict[str, Value] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INT = re.compile(r"[-+]?[0-9]{1,40}|0x[0-9a-fA-F]{1,32}|0o[0-7]{1,40}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


@dataclass(frozen=True)
class Document:
    """A tree of plain values read from `name`; `places` says where each stands, as `file:line`."""

    name: str
    value: Value
    places: dict[Steps, str] = field(default_factory=dict)

    def place(self, steps: Steps) -> str:
        """Where the value, or its nearest ancestor with a place, was written."""
        while steps and steps not in self.places:
            steps = steps[:-1]
        return self.places.get(steps, self.name)

    def subdocument(self, key: str) -> "Document":
        """The value of a key of the root as a document of its own; its places stay."""
        value = self.value.get(key) if isinstance(self.value, dict) else None
        places = {steps[1:]: place for steps, place in self.places.items() if steps[:1] == (key,)}
        return Document(self.name, value, places)


def path_text(steps: Steps) -> str:
    """`$.data.train[0]`; keys that are no plain words are quoted."""
    parts = (f"[{step}]" if isinstance(step, int) else _key_text(step) for step in steps)
    return "$" + "".join(parts)


def _key_text(key: str) -> str:
    return f".{key}" if re.fullmatch(r"\w[\w-]*", key) else f"[{key!r}]"


def folder_of(path: str | Path) -> str:
    """Absolute directory that paths in a file are relative to; of a stream, the working directory."""
    return str(Path.cwd() if _GIVEN.fullmatch(str(path)) else Path(path).absolute().parent)


def read_yaml(path: str | Path) -> Document:
    """Read a local file, or a stream that this process was given: `/dev/stdin`, or a shell's `<(…)`.

    Raises `NotFound` when there is none, `SpecError` for everything else.
    """
    try:
        with open(path, "rb") if _GIVEN.fullmatch(str(path)) else open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise NotFound(f"{path}: no such file; give the path of an existing YAML file") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SpecError(f"{path}: cannot be read: {reason}; give the path of a YAML file") from error
    return parse_yaml(data, str(path))


def parse_yaml(data: bytes | str, name: str) -> Document:
    """Read one YAML document. `name` is what error messages call it. Raises `SpecError` alone."""
    text = _decode_text(data, name)
    try:
        _check_events(text, name)
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}: column {mark.column + 1}" if mark else name
        words = f"{error.problem or error.context}; {_advice(text, mark.line if mark else 0)}"
        raise SpecError(f"{where}: not valid YAML: {words}") from error
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError(f"{name}: not valid YAML: {error}") from error
    if node is None:
        return Document(name, None)
    _Weigher(name).weigh(node, 1)
    document = Document(name, None, {})
    return Document(name, _build(node, (), document), document.places)


def _advice(text: str, number: int) -> str:
    """What is most often wrong with a line that is no YAML, and with the one before it."""
    lines = text.splitlines()
    near = "\n".join(lines[max(0, number - 1) : number + 1])
    if "\t" in near:
        return "indent with blanks, not with tabs"
    if "{{" in near:
        return "put a value that begins with {{ in quotes"
    if re.search(r"^---", near, re.M):
        return "a file holds one document; remove what follows `---`"
    return "look for a missing quote, bracket, colon or blank, here or on the line before"


def _decode_text(data: bytes | str, name: str) -> str:
    size = len(data)
    if size > MAX_BYTES:
        raise SpecError(f"{name}: larger than {MAX_BYTES >> 20} MiB, which is the most a YAML file may have here")
    if isinstance(data, str):
        return data
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecError(f"{name}:{line}: not UTF-8 at byte {error.start}; save the file as UTF-8") from error


def _check_events(text: str, name: str) -> None:
    """Bound the depth before the (recursive) composer sees the text, and refuse tags."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise SpecError(f"{_place(name, event)}: tag {tag!r} is not allowed; write a plain value")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise SpecError(f"{_place(name, event)}: nested deeper than {MAX_DEPTH} levels; write it flatter")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _place(name: str, what: yaml.Event | yaml.Node) -> str:
    return f"{name}:{what.start_mark.line + 1}" if what.start_mark else name


class _Weigher:
    """Counts the nodes of the tree with every alias expanded, without expanding any."""

    def __init__(self, name: str) -> None:
        self._name = name
        #: (nodes, height) of what was weighed; None while it is being weighed.
        self._known: dict[int, tuple[int, int] | None] = {}

    def weigh(self, node: yaml.Node, depth: int) -> tuple[int, int]:
        known = self._known.get(id(node), (0, 0))
        if known is None:
            raise self._error(node, "an alias inside of what it names")
        nodes, height = known if known[0] else self._fresh(node, depth)
        if depth + height > MAX_DEPTH + 1:
            raise self._error(node, f"nested deeper than {MAX_DEPTH} levels")
        if nodes > MAX_NODES:
            raise self._error(node, f"more than {MAX_NODES} values with its aliases expanded")
        self._known[id(node)] = nodes, height
        return nodes, height

    def _fresh(self, node: yaml.Node, depth: int) -> tuple[int, int]:
        self._known[id(node)] = None
        nodes, height = 1, 0
        for child in _children(node):
            more, deep = self.weigh(child, depth + 1)
            nodes, height = nodes + more, max(height, deep + 1)
        return nodes, height

    def _error(self, node: yaml.Node, what: str) -> SpecError:
        return SpecError(f"{_place(self._name, node)}: {what}; write the values out")


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _build(node: yaml.Node, steps: Steps, into: Document) -> Value:
    into.places[steps] = _place(into.name, node)
    if isinstance(node, yaml.SequenceNode):
        return [_build(child, (*steps, index), into) for index, child in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        return _build_mapping(node, steps, into)
    return _scalar(str(node.value), bool(getattr(node, "style", None)), steps, into)


def _build_mapping(node: yaml.MappingNode, steps: Steps, into: Document) -> dict[str, Value]:
    result: dict[str, Value] = {}
    for key_node, value_node in node.value:
        place = _place(into.name, key_node)
        if not isinstance(key_node, yaml.ScalarNode):
            raise SpecError(f"{place}: {path_text(steps)}: a key is a list or a mapping; only text can be a key")
        key = key_node.value
        inner = (*steps, key)
        if key in result:
            first = into.place(inner)
            raise SpecError(f"{place}: {path_text(inner)}: key {key!r} is given twice, first at {first}; remove one")
        result[key] = _build(value_node, inner, into)
        into.places[inner] = place  # the key's line: a block's value begins below it
    return result


def _scalar(text: str, quoted: bool, steps: Steps, into: Document) -> Value:
    if quoted:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INT.fullmatch(text):
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise SpecError(f"{into.place(steps)}: {path_text(steps)}: {text[:40]} is too large for a number")
        return number
    return text
