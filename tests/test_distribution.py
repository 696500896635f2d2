"""What is installed: only `afo*` names, and programs that start without TensorFlow and outside of the repository."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAMS = ["afo_am", "afo_child", "afo_client", "afo_history_server"]
#: Parts of the library that are TensorFlow's own (docs/architecture.md); everything else must do without.
ON_TENSORFLOW = (
    "afo.embedding",
    "afo.layers",
    "afo.models",
    "afo.optimizers",
    "afo.train.",
    "afo.data.columns",
    "afo.data.judge",
    "afo.data.pieces",
    "afo.data.pipeline",
    "afo.data.record_blocks",
    "afo.data.split_reader",
    "afo.data.split_fetcher",
)

IMPORT_ALL = """
import importlib, pathlib, sys
on_tensorflow = tuple(sys.argv[2:])
root = pathlib.Path(importlib.import_module(sys.argv[1]).__file__).parent
for file in sorted(root.rglob("*.py")):
    name = ".".join([sys.argv[1], *file.relative_to(root).with_suffix("").parts]).removesuffix(".__init__")
    if not name.startswith(on_tensorflow) and not name.endswith("__main__"):
        importlib.import_module(name)
loaded = [name for name in ("tensorflow", "keras") if name in sys.modules]
sys.exit(f"{sys.argv[1]} imports {loaded}" if loaded else 0)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    # An isolated build would unpack another TensorFlow for its headers; the environment has what the build needs.
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(ROOT)], check=True, timeout=300)
    return next(folder.glob("afo-*.whl"))


@pytest.mark.parametrize("package", ["afo", *PROGRAMS])
def test_no_program_imports_tensorflow(package: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", IMPORT_ALL, package, *ON_TENSORFLOW]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


def test_the_wheel_has_only_names_of_afo_at_its_top(wheel: Path) -> None:
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in names if not name.endswith((".dist-info", ".data"))} == {"afo", *PROGRAMS}


def test_the_wheel_carries_configuration_pages_and_types(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for end in ("etc/afo/afo-site.yaml", "etc/afo/jobs/demo.yaml", "afo/py.typed", "templates/job.html"):
        assert any(name.endswith(end) for name in names), end


def test_the_wheel_runs_in_a_clean_environment_outside_of_the_repository(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "clean"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    constraints = ROOT / "conf" / "constraints.txt"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", constraints, wheel]
    subprocess.run([str(word) for word in install], check=True, timeout=400)
    for arguments in (["--help"], ["version"], ["submit", "--help"]):
        done = subprocess.run(
            [environment / "bin" / "afo", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    names = ("tensorflow", "am", "client", "conf")
    found = subprocess.run(
        [python, "-c", f"import importlib.util as u; print([n for n in {names} if u.find_spec(n)])"],
        capture_output=True, text=True, timeout=60, cwd=tmp_path, check=True,
    )  # fmt: skip
    assert found.stdout.strip() == "[]"
