"""The transport's unit tests in C++: built, and run as they are and under sanitizers (tests/psplus/CMakeLists.txt)."""

from pathlib import Path

import pytest

from native_program import BUILD_S, ROOT, build, find_cmake, run_all

SOURCES = Path(__file__).parent
HEADERS = {"doctest/doctest.h": "doctest-dev", "asio.hpp": "libasio-dev", "openssl/ssl.h": "libssl-dev"}
#: Meant for another OpenSSL, whose module is not there.
CONFIGURATION = """openssl_conf = first
[first]
providers = providers
[providers]
another = module
[module]
activate = 1
module = /not/there.so
"""
RUN_S = 300


@pytest.fixture(scope="module")
def cmake() -> str:
    """See `find_cmake`."""
    return find_cmake("the transport's", HEADERS)


@pytest.mark.timeout(BUILD_S + RUN_S + 60)
@pytest.mark.parametrize(
    "variant",
    [
        pytest.param("plain", marks=pytest.mark.slow),
        pytest.param("address,undefined", marks=pytest.mark.slow),
        "thread",
    ],
)
def test_the_transport_does_what_its_tests_say(variant: str, cmake: str, tmp_path: Path) -> None:
    configuration = tmp_path / "openssl.cnf"
    configuration.write_text(CONFIGURATION)
    program = build(cmake, SOURCES, ROOT / "build" / "psplus" / variant, variant, "psplus_tests")
    # AFO_PSPLUS_SOAK=10 has ten times the seeds.
    run_all(program, variant, {"OPENSSL_CONF": str(configuration)}, RUN_S)
