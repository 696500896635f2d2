"""What the documentation says exists: links, files, tests, command lines with their options, job files, schemas."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from afo.data.schema import parse_schema
from afo.job.loader import load_job
from afo_client.cli.main import afo

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SUPPORT = ROOT / "tests" / "support"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
JOB_FILES = sorted(file for folder in ("jobs", "programs") for file in (ROOT / "conf" / folder).glob("*.yaml"))
SCHEMAS = sorted((ROOT / "conf" / "schemas").glob("*.yaml"))

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.M | re.S)
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"\.?[\w-]+(?:/[\w.-]+)*/?|[\w-]+\.(?:py|md|toml|yaml|xml)")
_SUBSTITUTED = re.compile(r"\$\((afo [^)]*)\)")
_MODULE = re.compile(r"^\| `([\w/]+(?:\.py|/))` \| [^|]+ \| ([^|]+) \|$", re.M)
_SHELL = {">", "|", "&&", ";", "<", "&"}
#: Look like files of the repository and are something else: a variable of the model, a version, a log, a user's file.
_NO_FILES = {"afo/positions", "afo/v1", "am/1", "json.py"}
_TOP = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name not in ("build", "dist", ".venv")}
_BY_NAME = {path.name for top in sorted(_TOP) for path in (ROOT / top).rglob("*.py")}
_TESTS = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, *languages: str) -> list[str]:
    """Code blocks of these languages, their indentation taken off."""
    found = _FENCE.findall(text_of(page))
    return [re.sub(rf"^{indent}", "", body, flags=re.M) for indent, language, body in found if language in languages]


def prose(page: Path) -> str:
    return _FENCE.sub("", text_of(page))


def commands(script: str) -> Iterator[str]:
    """Every `afo …` of a shell script, also one in `$(…)`, without what the shell does with its output."""
    for line in script.replace("\\\n", " ").splitlines():
        yield from _SUBSTITUTED.findall(line)
        if line.strip().startswith("afo "):
            yield line.strip()


def parse(command_line: str, *, whole: bool = True) -> None:
    """Parse a command line with the real commands and run nothing. Without `whole`, arguments may be missing."""
    words = shlex.split(command_line, comments=True)[1:]
    end = next((place for place, word in enumerate(words) if word in _SHELL), len(words))
    command: click.Command = afo
    names, rest = ["afo"], words[:end]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        inner = command.get_command(click.Context(command), rest[0])
        assert inner is not None, f"`{command_line}`: `{' '.join(names)}` has no verb {rest[0]}"
        command, names, rest = inner, [*names, rest[0]], rest[1:]
    try:
        if rest or (whole and not isinstance(command, click.Group)):
            command.make_context(" ".join(names), rest)
    except click.exceptions.Exit:
        pass  # --help
    except click.ClickException as error:
        if whole or not isinstance(error, click.MissingParameter):
            pytest.fail(f"`{command_line}`: {error.format_message()}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
class TestPage:
    def test_links_lead_somewhere(self, page: Path) -> None:
        targets = [target for target in _LINK.findall(text_of(page)) if "://" not in target]
        broken = [target for target in targets if not (page.parent / target.partition("#")[0]).exists()]
        assert not broken

    def test_files_and_tests_that_are_named_exist(self, page: Path) -> None:
        named = {word for word in _CODE.findall(prose(page)) if _PATH.fullmatch(word)} - _NO_FILES
        paths = {word for word in named if "/" in word and word.split("/")[0] in _TOP}
        modules = {word for word in named if "/" not in word and word.endswith(".py")}
        tests = {word for word in named if word.startswith("test_") and "." not in word}
        assert not {path for path in paths if not (ROOT / path).exists()}
        assert not modules - _BY_NAME
        assert not {name for name in tests if f"def {name}(" not in _TESTS}

    def test_command_lines_parse(self, page: Path) -> None:
        for block in blocks(page, "sh"):
            for line in commands(block):
                parse(line)
        for code in _CODE.findall(prose(page)):
            if re.match(r"afo [a-z-]", code):
                parse(code, whole=False)

    def test_whole_job_files_and_schemas_are_valid(self, page: Path, tmp_path: Path) -> None:
        for block in blocks(page, "yaml"):
            if re.search(r"^roles:", block, re.M):
                file = tmp_path / "job.yaml"
                file.write_text(block, encoding="utf-8")
                job = load_job(file)
                assert job.data.train or job.program
            elif re.search(r"^features:", block, re.M):
                assert parse_schema(block, str(page)).features

    def test_python_is_python(self, page: Path) -> None:
        for block in blocks(page, "python"):
            compile(block, str(page), "exec")

    def test_no_place_of_one_machine_is_named(self, page: Path) -> None:
        assert not re.search(r"/work/|/root/|/tmp/(?!afo-doc)", text_of(page))


@pytest.mark.parametrize("file", JOB_FILES, ids=lambda file: str(file.name))
def test_example_jobs_load(file: Path) -> None:
    assert load_job(file).name
    for line in commands(re.sub(r"^# *", "", text_of(file), flags=re.M)):
        parse(line)


@pytest.mark.parametrize("file", SCHEMAS, ids=lambda file: str(file.name))
def test_example_schemas_load(file: Path) -> None:
    assert parse_schema(file.read_bytes(), str(file)).features


def test_there_are_jobs_and_schemas() -> None:
    assert JOB_FILES
    assert SCHEMAS


def all_commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            inner = command.get_command(context, each)
            assert inner is not None
            yield from all_commands(inner, f"{name} {each}")


@pytest.mark.parametrize(("name", "command"), [pytest.param(*each, id=each[0]) for each in all_commands(afo, "afo")])
def test_help_says_what_each_option_does_and_its_examples_parse(name: str, command: click.Command) -> None:
    assert command.help, name
    silent = [each.name for each in command.params if isinstance(each, click.Option) and not each.help]
    assert not silent
    for line in commands(command.epilog or ""):
        parse(line)


def test_the_index_names_every_page() -> None:
    index = text_of(DOCS / "README.md")
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"README.md"}
    linked = set(_LINK.findall(index))
    assert not {page for page in pages if not page.startswith("reports/")} - linked


def test_folders_of_tests_are_those_of_the_code() -> None:
    code = {"afo": "afo", "am": "am/afo_am", "child": "child/afo_child", "client": "client/afo_client",
            "history_server": "history_server/afo_history_server"}  # fmt: skip
    astray = [
        str(file)
        for tests, package in code.items()
        for file in (ROOT / "tests" / tests).rglob("test_*.py")
        if not (ROOT / package / file.relative_to(ROOT / "tests" / tests)).parent.is_dir()
    ]
    assert not astray


def test_the_index_of_test_support_names_each_module_once() -> None:
    named = [name for name, _ in _MODULE.findall(text_of(SUPPORT / "README.md"))]
    modules = {str(path.relative_to(SUPPORT)).replace("__init__.py", "") for path in SUPPORT.rglob("*.py")}
    assert sorted(named) == sorted(modules)


@pytest.mark.parametrize(
    ("module", "users"), [pytest.param(*row, id=row[0]) for row in _MODULE.findall(text_of(SUPPORT / "README.md"))]
)
def test_a_module_of_test_support_is_used_by_those_that_its_index_names(module: str, users: str) -> None:
    name = re.compile(rf"\b{Path(module).stem.replace('__main__', 'simulation')}\b")
    for user in (ROOT / each for each in _CODE.findall(users)):
        files = sorted(user.rglob("*.py")) if user.is_dir() else [user]
        assert any(name.search(text_of(file)) for file in files if file != SUPPORT / module), f"{user} and {module}"


@pytest.mark.parametrize(
    "command_line", ["afo sbumit job.yaml", "afo submit job.yaml --dry", "afo submit", "afo cluster start --nodes two"]
)
def test_a_wrong_command_line_is_found(command_line: str) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        parse(command_line)
