"""Driver of skein, and nowhere else: a JVM that is started for one submission and ends with it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import skein

from afo.errors import AfoError, ClusterUnreachable, NotFound, PermissionDenied, ProtocolError, SpecError, WaitTimeout
from afo.storage import deadline
from afo.yarn import skein_channel
from afo_client.runtimes.yarn import java

_START_S = 60.0
_SUBMIT_S = 120.0
_PACKAGES = ("java.lang", "java.lang.reflect", "java.util", "java.net", "java.nio")
#: A JVM that lives for seconds: the first compiler and the simplest collector halve its start (1.9 s of CPU for 3.8).
#: Hadoop's libraries look into packages that Java has kept closed since version 16; Java 8 ignores the option.
_JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _PACKAGES),
)
#: Words in the ResourceManager's refusal, and what they mean; the first that fits counts.
_REFUSALS: tuple[tuple[str, type[AfoError]], ...] = (
    ("safe mode", ClusterUnreachable),
    ("SafeModeException", ClusterUnreachable),
    ("Connection refused", ClusterUnreachable),
    ("AccessControlException", PermissionDenied),
    ("cannot submit applications to queue", PermissionDenied),
    ("unknown queue", SpecError),
    ("InvalidResourceRequestException", SpecError),
)


class BoundedClient(skein.Client):  # type: ignore[misc]
    """skein's client with a limit of time for each call; skein itself would wait for ever."""

    def __new__(cls, *_arguments: Any, **_named: Any) -> "BoundedClient":
        client: BoundedClient = super().__new__(cls)
        client._proc = None  # skein's own __del__ stumbles over its absence when the driver does not start
        return client

    def _call(self, method: str, request: Any, timeout: float | None = None) -> Any:
        return super()._call(method, request, timeout=timeout or _SUBMIT_S)


def submit(spec: dict[str, Any]) -> str:
    """Submit an application (see `afo.yarn.submission.application_spec`) under a new key pair; returns its id.

    Raises `ClusterUnreachable` (also for a cluster in safe mode), `SpecError` for what YARN refuses, `NotFound` without
    Java or Hadoop's `yarn` command, `PermissionDenied`, `ProtocolError`. Leaves no process behind.
    """
    security = skein.Security.new_credentials()
    # Everybody who holds the pair may command the application, so no two applications share one.
    pair = {"cert_bytes": security.cert_bytes, "key_bytes": security.key_bytes}
    application = skein.ApplicationSpec.from_dict({**spec, "master": {**spec["master"], "security": pair}})
    with _driver(security, "YARN refuses the application") as client:
        return str(client.submit(application))


def kill(application_id: str) -> None:
    """End an application by YARN's RPC. Raises what `submit` does."""
    with _driver(skein.Security.new_credentials(), f"YARN does not end {application_id}") as client:
        client.kill_application(application_id)


@contextmanager
def _driver(security: Any, refusal: str) -> Iterator[BoundedClient]:
    client = _start(security)
    try:
        yield client
    except (skein.exceptions.SkeinError, ValueError, KeyError) as error:
        raise _translate_refusal(refusal, str(error)) from error
    finally:
        client.close()


def _start(security: Any) -> BoundedClient:
    for command in ("yarn", java.command()):
        if shutil.which(command) is None:
            raise NotFound(
                f"`{command}` is not found; submitting to YARN needs Java and Hadoop's `yarn` command on PATH "
                "(`afo cluster start` prints what to export)"
            )
    skein_channel.direct()
    try:
        options = [*_JAVA_OPTIONS, *java.realm_options(), *os.environ.get("SKEIN_DRIVER_JAVA_OPTIONS", "").split()]
        return deadline.call(_START_S, lambda: BoundedClient(security=security, log=False, java_options=options))
    except (WaitTimeout, skein.exceptions.SkeinError) as error:
        raise ClusterUnreachable(
            f"skein's driver did not start: {error}; it runs Java on the class path of `yarn classpath --glob`"
        ) from error
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotFound(f"skein's driver cannot be started: {error}") from error


def _translate_refusal(refusal: str, text: str) -> AfoError:
    words = " ".join(line.strip() for line in text.splitlines() if not line.lstrip().startswith("at "))
    kind = next((kind for part, kind in _REFUSALS if part.lower() in words.lower()), ProtocolError)
    return kind(f"{refusal}: {words}")
