"""Where the Application Master and TensorFlow's servers of a job are told to listen and to be found."""

import socket

import pytest

from afo.process.hosts import advertised_host, host_of, host_port


def test_a_local_job_is_found_on_this_machine_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NM_HOST", "node-7")
    assert advertised_host("local") == "127.0.0.1"


@pytest.mark.parametrize(
    ("address", "found"), [("10.0.0.7", "node-7"), ("127.0.0.1", "127.0.0.1"), ("127.0.0.3", "127.0.0.3")]
)
def test_on_yarn_it_is_the_node_s_name_unless_that_is_this_machine(
    address: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NM_HOST", "node-7")
    monkeypatch.setattr(socket, "gethostbyname", {"node-7": address}.__getitem__)
    assert advertised_host("yarn") == found


def test_a_name_that_does_not_resolve_here_may_do_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NM_HOST", "node-7.invalid")
    assert advertised_host("yarn") == "node-7.invalid"


def test_a_node_known_by_an_ipv6_address_is_found_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NM_HOST", "fd00::2")
    assert advertised_host("yarn") == "fd00::2"


@pytest.mark.parametrize(
    ("host", "text"), [("node-7", "node-7:80"), ("10.0.0.7", "10.0.0.7:80"), ("fd00::2", "[fd00::2]:80")]
)
def test_a_host_and_its_port(host: str, text: str) -> None:
    assert host_port(host, 80) == text
    assert host_of(text) == host
