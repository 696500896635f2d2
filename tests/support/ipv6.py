"""Tests that take a machine which can be reached as ::1."""

import socket

import pytest


def _has_loopback() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


NEEDS_IPV6 = pytest.mark.skipif(not _has_loopback(), reason="this machine has no ::1")
