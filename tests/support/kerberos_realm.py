"""A Kerberos realm of its own on this machine: MIT's KDC in a directory, on a free port, without anything of /etc."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

REALM = "AFO.TEST"
#: Debian puts the KDC's programs where only root's PATH looks.
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_START_S = 20.0
_MASTER_PASSWORD = "of a realm that lives for one test"


def missing() -> str:
    """The programs that this machine lacks, or ''."""
    return ", ".join(name for name in _PROGRAMS if not shutil.which(name, path=_PATH))


def demand() -> None:
    """Skips a test where programs are missing, but fails it in continuous integration."""
    if lacking := missing():
        if os.environ.get("CI"):
            pytest.fail(f"continuous integration must run the tests with Kerberos; missing: {lacking}")
        pytest.skip(f"missing: {lacking}")


class Realm:
    """Its configuration is `krb5.conf` in its directory; keytabs lie beside it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = directory / "krb5.conf"
        self._port = _free_port()
        self._kdc: subprocess.Popen[bytes] | None = None

    def start(self, *principals: str) -> None:
        """Starts the KDC; each of the principals gets a keytab."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._configure()
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", _MASTER_PASSWORD)
        for principal in principals:
            self.add(principal)
        program = shutil.which("krb5kdc", path=_PATH)
        assert program is not None
        self._kdc = subprocess.Popen([program, "-n"], env=self.environment(), stdin=subprocess.DEVNULL)
        self._wait_until_it_answers()

    def stop(self) -> None:
        """Ends the KDC."""
        if self._kdc is not None:
            self._kdc.terminate()
            self._kdc.wait(20)

    def add(self, principal: str) -> None:
        """A principal with a random key, which its keytab holds."""
        self._run("kadmin.local", "-q", f"addprinc -randkey {principal}@{REALM}")
        self._run("kadmin.local", "-q", f"ktadd -norandkey -k {self.keytab(principal)} {principal}@{REALM}")

    def keytab(self, principal: str) -> Path:
        """The file with the principal's key; those of all web interfaces are in one."""
        name = "HTTP" if principal.startswith("HTTP/") else principal.replace("/", "-")
        return self.directory / f"{name}.keytab"

    def cache(self, principal: str, *options: str) -> Path:
        """`kinit`: a file with a fresh ticket."""
        cache = self.directory / f"{principal.replace('/', '-')}.cache"
        self._run("kinit", "-c", str(cache), *options, "-kt", str(self.keytab(principal)), f"{principal}@{REALM}")
        return cache

    def environment(self) -> dict[str, str]:
        """For programs that speak to the KDC, Java ones too."""
        return {
            **os.environ,
            "PATH": _PATH,
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            "JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={self.config}",
        }

    def _configure(self) -> None:
        sections: Mapping[str, Mapping[str, object]] = {
            "libdefaults": {
                "default_realm": REALM, "rdns": "false", "dns_canonicalize_hostname": "false",
                "dns_lookup_kdc": "false", "udp_preference_limit": 1,
            },
            "domain_realm": dict.fromkeys(("localhost", "127.0.0.1", "127.0.0.2"), REALM),
        }  # fmt: skip
        realm = f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self._port}\n }}\n"
        self.config.write_text(_text(sections) + realm)
        at = self.directory
        (at / "kdc.conf").write_text(
            f"[realms]\n {REALM} = {{\n  database_name = {at}/principal\n  key_stash_file = {at}/stash\n"
            f"  acl_file = {at}/acl\n  kdc_listen = 127.0.0.1:{self._port}\n  kdc_tcp_listen = 127.0.0.1:{self._port}\n"
            "  max_renewable_life = 7d\n }\n"
            f"[logging]\n kdc = FILE:{at}/kdc.log\n"
        )

    def _run(self, program: str, *arguments: str) -> None:
        found = shutil.which(program, path=_PATH)
        assert found is not None
        subprocess.run([found, *arguments], env=self.environment(), check=True, capture_output=True, timeout=60)

    def _wait_until_it_answers(self) -> None:
        end = time.monotonic() + _START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return
            except OSError:
                assert time.monotonic() < end, (self.directory / "kdc.log").read_text()
                time.sleep(0.05)


def _text(sections: Mapping[str, Mapping[str, object]]) -> str:
    lines = [
        line
        for name, values in sections.items()
        for line in (f"[{name}]", *(f" {key} = {value}" for key, value in values.items()))
    ]
    return "\n".join([*lines, ""])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
