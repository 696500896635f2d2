"""What is installed: only `afo*` names, programs that start without TensorFlow and outside of the repository, and
operations that run on each system that TensorFlow's own wheel is for, without a compiler.
"""

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from afo.ops.library import LISTEN
from afo.psplus import server_library
from afo_client.serving import model_server
from processor_build import require_model_server, require_parameter_server, require_processor

ROOT = Path(__file__).parent.parent
PROGRAMS = ["afo_am", "afo_child", "afo_client", "afo_history_server"]
#: Parts of the library that are TensorFlow's own (docs/architecture.md); everything else must do without.
ON_TENSORFLOW = (
    "afo.embedding",
    "afo.layers",
    "afo.models",
    "afo.optimizers",
    "afo.train.",
    "afo.trainable",
    "afo.state",
    "afo.checkpoint.restore",
    "afo.checkpoint.save",
    "afo.checkpoint.warm_start",
    "afo.data.io.columns",
    "afo.data.pipeline.bad_record_locator",
    "afo.data.pipeline.batch_fragments",
    "afo.data.pipeline.batcher",
    "afo.data.pipeline.record_filter",
    "afo.data.io.record_blocks",
    "afo.data.pipeline.split_reader",
    "afo.data.pipeline.split_fetcher",
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


#: `0000000000000000  DF *UND*  0000000000000000 (GLIBC_2.27) powf`, as objdump says what a library wants of others.
WANTED = re.compile(r"\*UND\*.*\((?P<family>GLIBC|GLIBCXX|CXXABI|GCC)_(?P<version>[\d.]+)\)\s+(?P<symbol>\S+)")
#: Registers that only AVX-512 has.
WIDE = re.compile(r"%zmm|%[xy]mm(1[6-9]|2\d|3[01])|%k[0-7]")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the built wheels."""
    folder = tmp_path_factory.mktemp("wheels")
    subprocess.run([ROOT / ".ci" / "make-wheels", sys.executable, folder], check=True, timeout=400)
    return folder


@pytest.fixture(scope="module")
def wheel(wheels: Path) -> Path:
    """The wheel with the operations."""
    return next(wheels.glob("afo-*-manylinux_*.whl"))


@pytest.fixture(scope="module")
def library(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operations of the wheel."""
    return extracted(wheel, "/_afo_ops.", tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def preloaded(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the processes of tasks preload."""
    return extracted(wheel, f"/{LISTEN}", tmp_path_factory.mktemp("preloaded"))


@pytest.fixture(scope="module")
def processor(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What servers link with."""
    require_processor()
    return extracted(wheel, "/libafo_processor.", tmp_path_factory.mktemp("processor"))


@pytest.fixture(scope="module")
def parameter_server(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a parameter server of our own loads."""
    require_parameter_server()
    return extracted(wheel, f"/{server_library.NAME}", tmp_path_factory.mktemp("parameter_server"))


@pytest.fixture(scope="module")
def server(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `afo serve` starts."""
    require_model_server()
    return extracted(wheel, f"/{model_server.NAME}", tmp_path_factory.mktemp("server"))


def extracted(wheel: Path, part: str, folder: Path) -> Path:
    """The one file of the wheel with `part` in its name."""
    with zipfile.ZipFile(wheel) as packed:
        (name,) = [name for name in packed.namelist() if part in name]
        return Path(packed.extract(name, folder))


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


@pytest.mark.usefixtures("processor")
def test_the_wheel_carries_what_hosts_of_the_processor_are_compiled_with(wheel: Path) -> None:
    assert "afo/serving/processor.h" in names_in(wheel)


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


def tensorflow_packages() -> Path:
    """The site-packages that TensorFlow lies in."""
    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:
        pytest.skip("TensorFlow is not installed")
    return Path(found.origin).parents[1]


def names_in(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.slow
def test_one_wheel_runs_where_tensorflows_does_and_one_without_operations_anywhere(wheels: Path) -> None:
    tags = {path.name.partition("-py3-none-")[2] for path in wheels.iterdir()}
    assert tags == {"manylinux_2_27_x86_64.whl", "any.whl"}
    theirs = importlib.metadata.distribution("tensorflow-cpu").read_text("WHEEL")
    assert theirs is not None
    assert "-manylinux_2_27_x86_64" in theirs


def wanted(library: Path) -> dict[str, dict[tuple[int, ...], list[str]]]:
    """Family of symbols → version → the symbols that `library` wants in it."""
    lines = output_of("objdump", "-T", library).splitlines()
    found: dict[str, dict[tuple[int, ...], list[str]]] = {}
    for match in filter(None, map(WANTED.search, lines)):
        version = tuple(map(int, match["version"].split(".")))
        found.setdefault(match["family"], {}).setdefault(version, []).append(match["symbol"])
    return found


@pytest.mark.parametrize("which", ["library", "processor", "parameter_server"])
def test_the_libraries_want_no_newer_system_than_tensorflow(which: str, request: pytest.FixtureRequest) -> None:
    theirs = wanted(tensorflow_packages() / "tensorflow" / "libtensorflow_framework.so.2")
    ours = wanted(request.getfixturevalue(which))
    assert set(ours) == {"GLIBC", "GLIBCXX", "CXXABI", "GCC"}
    newer = {
        (family, *version): symbols
        for family, versions in ours.items()
        for version, symbols in versions.items()
        if version > max(theirs[family])
    }
    assert not newer, "name an older version, or bring the function along, in afo/ops/old_systems.cc"


def test_the_parameter_server_needs_no_tensorflow_and_shows_nothing_of_its_openssl(parameter_server: Path) -> None:
    needed = output_of("objdump", "-p", parameter_server)
    # Of the first two only the names are left since glibc 2.34.
    system = {"libpthread.so.0", "libdl.so.2", "libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6"}
    system.add("ld-linux-x86-64.so.2")  # of variables that each thread has
    assert {line.split()[1] for line in needed.splitlines() if "NEEDED" in line} <= system
    exported = output_of("nm", "--dynamic", "--defined-only", parameter_server).split()[2::3]
    assert [name for name in exported if not name.startswith("afo_")] == []


@pytest.mark.parametrize("which", ["library", "processor", "parameter_server"])
def test_the_libraries_have_their_own_openssl_and_zlib(which: str, request: pytest.FixtureRequest) -> None:
    """TensorFlow exports functions of the same names, of other versions: linked ahead of ours, it would be called."""
    asked = set(output_of("nm", "--dynamic", "--undefined-only", request.getfixturevalue(which)).split())
    theirs = ("SSL_", "EVP_", "OPENSSL_", "CRYPTO_", "ERR_", "BIO_", "X509_", "inflate", "deflate")
    assert [name for name in asked if name.startswith(theirs)] == []


def output_of(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_model_server_runs_on_an_old_system_and_is_a_program(wheel: Path, server: Path) -> None:
    versions = wanted(server)
    assert set(versions) == {"GLIBC"}
    assert max(versions["GLIBC"]) <= (2, 27)
    with zipfile.ZipFile(wheel) as packed:
        [entry] = [entry for entry in packed.infolist() if entry.filename.endswith(model_server.NAME)]
    assert entry.external_attr >> 16 & 0o111


def test_what_is_preloaded_wants_nothing_but_an_old_glibc(preloaded: Path) -> None:
    """It comes into every program that a task starts, also into one without libstdc++."""
    versions = wanted(preloaded)
    assert set(versions) == {"GLIBC"}
    assert max(versions["GLIBC"]) <= (2, 27)
    needed = output_of("objdump", "-p", preloaded)
    assert [line.split()[1] for line in needed.splitlines() if "NEEDED" in line] == ["libc.so.6"]


def wide_functions(library: Path) -> Iterator[str]:
    """Functions of `library` with instructions of AVX-512, one time for each."""
    function = ""
    for line in output_of("objdump", "--disassemble", "--demangle", "--no-show-raw-insn", library).splitlines():
        if line.endswith(">:"):
            function = line.partition("<")[2]
        elif WIDE.search(line):
            yield function


def test_wide_instructions_are_only_in_kernels_that_are_chosen_at_run_time(library: Path) -> None:
    functions = set(wide_functions(library))
    assert functions
    # OpenSSL's, which are C, are chosen by OpenSSL.
    ours = [name.removeprefix("void ") for name in functions if "::" in name]
    assert ours
    assert [name for name in ours if not name.startswith("afo::v4::")] == []


@pytest.mark.slow
def test_without_a_compiler_the_build_makes_the_wheel_for_any_system(wheels: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path]
    without = {**os.environ, "PATH": str(Path(sys.executable).parent)}
    assert shutil.which("g++", path=without["PATH"]) is None
    subprocess.run([*command, ROOT], env=without, check=True, timeout=120)
    built, any_system = next(tmp_path.iterdir()), next(wheels.glob("*-any.whl"))
    assert built.name == any_system.name
    assert names_in(built) == names_in(any_system)
    assert not [name for name in names_in(built) if name.endswith(".so")]


@pytest.fixture(scope="module")
def without_compiler(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with afo's wheel; TensorFlow and the other packages are those of this one."""
    environment = tmp_path_factory.mktemp("installed")
    venv.create(environment)
    python = environment / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(command, check=True, timeout=120)
    packages = next(environment.glob("lib/python3*/site-packages"))
    (packages / "others.pth").write_text(f"{tensorflow_packages()}\n")
    return environment


def installed(environment: Path, folder: Path, *command: str) -> str:
    """What a program of `environment` says, with nothing but its programs on the path and `folder` as its home."""
    variables = {"PATH": str(environment / "bin"), "HOME": str(folder), "AFO_STATE_DIR": str(folder / "state")}
    words = [environment / "bin" / command[0], *command[1:]]
    done = subprocess.run(words, env=variables, cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_wheel_trains_without_a_compiler(without_compiler: Path, tmp_path: Path) -> None:
    says = "from afo.ops import library; library.load(); print(library.available())"
    loaded = Path(installed(without_compiler, tmp_path, "python", "-c", says).strip())
    assert loaded.is_relative_to(without_compiler)
    answer = json.loads(installed(without_compiler, tmp_path, "afo", "demo", "--train", "2000", "--json"))
    assert answer["verdict"]["samples"] == 2000


@pytest.mark.slow
def test_the_wheel_has_the_pages_of_the_history_server(without_compiler: Path, tmp_path: Path) -> None:
    asks = (
        "from afo_history_server.web.app import close_app, create_app; app = create_app('.');"
        "print(app.test_client().get('/').text, app.root_path); close_app(app)"
    )
    said = installed(without_compiler, tmp_path, "python", "-c", asks)
    assert "<html" in said
    assert str(without_compiler) in said
