"""docs/glossary.md: each word once and in order, its code there, and no module or class named otherwise."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "glossary.md"
PROGRAMS = {"afo": ".", "afo_am": "am", "afo_child": "child", "afo_client": "client",
            "afo_history_server": "history_server"}  # fmt: skip
_ROW = re.compile(r"^\| ([^|]+?) \| [^|]+ \| `([\w.]+)` \| ([^|]*?) ?\|$", re.M)
ROWS = [match.groups() for match in _ROW.finditer(PAGE.read_text())]


def names() -> set[str]:
    """Words of all modules and public classes, in lower case."""
    found: set[str] = set()
    for package, folder in PROGRAMS.items():
        for file in (ROOT / folder / package).rglob("*.py"):
            found.update(file.stem.split("_"))
            classes = (node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef))
            found.update(word.lower() for name in classes for word in re.findall(r"[A-Z][a-z]+", name))
    return found


def test_words_are_there_once_and_in_order() -> None:
    words = [word.lower() for word, _, _ in ROWS]
    assert len(words) > 30, f"the table of {PAGE} is not read"
    assert words == sorted(set(words))
    assert len(words) == PAGE.read_text().count("\n| ") - 1, (
        "every row has a word, an explanation, code and what it is not"
    )


@pytest.mark.parametrize("code", sorted({code for _, code, _ in ROWS}))
def test_what_a_word_means_is_in_the_code(code: str) -> None:
    module, _, name = code.rpartition(".")
    file = ROOT / PROGRAMS[module.split(".")[0]] / Path(*module.split(".")).with_suffix(".py")
    assert file.exists(), f"{code}: there is no {file}"
    body = ast.parse(file.read_text()).body
    defined = {node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert name in defined, f"{file} defines no {name}"


def test_no_module_or_class_has_a_name_that_is_not_the_word() -> None:
    refused = {word.strip() for _, _, others in ROWS for word in others.split(",")} - {""}
    allowed = {word.split(" (")[0].lower() for word, _, _ in ROWS}
    single = {word for word in refused if " " not in word and word not in allowed}
    assert single & names() == set(), "docs/glossary.md has another word for it"


def test_a_module_says_what_it_is_and_asks_no_question() -> None:
    """A noun phrase: who looks for a thing looks for its name."""
    asking = re.compile(r"(What|Which|How|Who|Whose|Where|Why|Whether)\b")
    modules = [file for program, root in PROGRAMS.items() for file in (ROOT / root / program).rglob("*.py")]
    opened = {file: ast.get_docstring(ast.parse(file.read_text())) or "" for file in modules}
    assert len(opened) > 300
    assert not [f"{file}: {words.splitlines()[0]}" for file, words in opened.items() if asking.match(words)]
