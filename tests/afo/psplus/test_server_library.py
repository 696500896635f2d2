"""The parameter server's library: what it was built with, and what is said where it is missing or cannot be loaded."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from afo.errors import Unsupported
from afo.psplus import server_library
from processor_build import require_parameter_server


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty directory in place of the package's."""
    monkeypatch.setattr(server_library, "__file__", str(tmp_path / "server_library.py"))
    server_library.load.cache_clear()
    yield tmp_path
    server_library.load.cache_clear()


def test_it_has_an_openssl_of_its_own_beside_pythons() -> None:
    require_parameter_server()
    assert ssl.create_default_context().get_ciphers()
    assert server_library.versions().startswith("OpenSSL 3.")
    assert "Asio 1." in server_library.versions()


def test_a_missing_library_says_what_to_install(elsewhere: Path) -> None:
    with pytest.raises(
        Unsupported, match=r"_afo_server\.so is missing\).* manylinux wheel, .* libasio-dev and libssl-dev"
    ):
        server_library.load()


def test_a_library_that_cannot_be_loaded_is_named(elsewhere: Path) -> None:
    (elsewhere / server_library.NAME).write_bytes(b"of another system")
    with pytest.raises(Unsupported, match=rf"cannot load {elsewhere}/_afo_server\.so: .*; build afo again"):
        server_library.load()
