"""The engine's unit tests in C++: built, and run as they are and under sanitizers (tests/core/CMakeLists.txt)."""

from pathlib import Path

import pytest

from native_program import BUILD_S, ROOT, build, find_cmake, run, run_all

SOURCES = Path(__file__).parent
#: The directory of each variant in build/native, and how many inputs of the fuzzer are replayed: one thread has no
#: races, and whatever else they find the others find sooner.
VARIANTS = {"plain": 1500, "address,undefined": 300, "thread": 30}
RUN_S = 400


@pytest.fixture(scope="module")
def cmake() -> str:
    """See `find_cmake`."""
    return find_cmake("the engine's", {"doctest/doctest.h": ".ci/system-packages doctest"})


@pytest.mark.timeout(BUILD_S + RUN_S + 60)
@pytest.mark.parametrize(
    "variant",
    [
        pytest.param("plain", marks=pytest.mark.slow),
        "address,undefined",
        pytest.param("thread", marks=pytest.mark.slow),
    ],
)
def test_the_engine_does_what_its_tests_say(variant: str, cmake: str) -> None:
    inputs = {"AFO_FUZZ_INPUTS": str(VARIANTS[variant])}
    run_all(_built(variant, cmake), variant, inputs, RUN_S)


@pytest.mark.parametrize("named", ["v3", "v4", "of no processor"])
def test_an_instruction_set_can_be_named(named: str, cmake: str) -> None:
    program = _built("plain", cmake)
    # What is pooled and updated is the same on all of them.
    only = "--test-case=*AFO_ISA*,*for every rule*,*combined*,*slope*"
    done = run([str(program), only], {"AFO_ISA": named})
    assert done.returncode == 0, done.stdout[-20000:]
    assert " 0 passed" not in done.stdout


def _built(variant: str, cmake: str) -> Path:
    return build(cmake, SOURCES, ROOT / "build" / "native" / variant, variant, "core_tests")
