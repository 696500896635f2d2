"""Which way skein's calls go where the environment names a proxy."""

import os
import socket
import subprocess
import sys

import pytest

from refusing_proxy import refusing_proxy

#: A call to where nobody listens.
_CALL = """
import sys, skein
from afo.yarn import skein_channel
if sys.argv[2] == "direct":
    skein_channel.direct()
client = skein.ApplicationClient(sys.argv[1], "application_1_1", skein.Security.new_credentials())
try:
    client.get_containers()
except skein.exceptions.ConnectionError:
    sys.exit(7)
"""


@pytest.mark.parametrize("way", ["direct", "skein's own"])
def test_no_call_of_skein_goes_through_a_proxy(way: str) -> None:
    with socket.socket() as nobody, refusing_proxy() as proxy:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        call = [sys.executable, "-c", _CALL, address, way]
        done = subprocess.run(call, env={**kept, **proxy.environment()}, timeout=60, check=False)
        assert done.returncode == 7
        through = proxy.visits()
    assert (through == []) == (way == "direct")
    assert set(through) <= {f"CONNECT {address} HTTP/1.1"}
