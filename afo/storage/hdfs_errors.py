"""Translation of hdfs-native's errors into afo's, and nowhere else.

hdfs-native raises FileNotFoundError and FileExistsError for those two, OSError for trouble with a connection, and
RuntimeError with Rust's debug text for the rest, e.g. `RPCError("java.class.Name", "message\\n\\tat java.stack…")`.
"""

from __future__ import annotations

import re

from afo.errors import (
    AfoError,
    AlreadyExists,
    ClusterUnreachable,
    NotFound,
    PermissionDenied,
    StorageError,
    WaitTimeout,
)
from afo.hadoop import conf, kerberos

_RPC = re.compile(r'^(?:Fatal)?RPCError\("(?P<java>[\w.$]+)", "(?P<text>(?:[^"\\]|\\.)*)"\)$', re.DOTALL)
_NOT_SERVING = ("SafeModeException", "StandbyException", "RetriableException", "ServerTooBusyException")
_SECURITY = ("SASLError", "GSSAPIError", "NoSASLMechanism", "Kerberos", "gssapi")
_NO_DATANODE = ("DataTransferError", "All DataNodes failed")
#: Rust's debug text of a protobuf message, and the host that one of a DataNode names.
_STRUCTURE = re.compile(r"\b(\w+)Proto \{")
_HOST = re.compile(r'\bhost_name: \\?"([^"\\]+)')
_LEASE = ("lease", "is already being created", "ALREADY_BEING_CREATED")


def translate(error: BaseException, what: str, url: str, address: str) -> AfoError:
    """The afo error for what hdfs-native raised while it should `what` (a verb) the file `url`."""
    if isinstance(error, AfoError) and not isinstance(error, WaitTimeout):
        return error
    text = _first_line(str(error))
    if isinstance(error, FileNotFoundError):
        return NotFound(f"cannot {what} {url}: no such file or directory")
    if isinstance(error, FileExistsError):
        return _exists(text, what, url)
    if isinstance(error, (OSError, WaitTimeout)):
        return ClusterUnreachable(f"cannot {what} {url}: HDFS at {address} does not answer: {text}{_hung_up(text)}")
    if rpc := _RPC.match(str(error)):
        return _remote(rpc["java"].rpartition(".")[2], _first_line(rpc["text"]), what, url, address)
    return _own(text, what, url, address)


def _own(text: str, what: str, url: str, address: str) -> AfoError:
    """An error of hdfs-native itself."""
    if any(word in text for word in _SECURITY):
        words = f"HDFS at {address} demands Kerberos; {kerberos.advice(text)} ({text})"
        return PermissionDenied(f"cannot {what} {url}: {words}")
    if any(word in text for word in _NO_DATANODE):
        return ClusterUnreachable(f"cannot {what} {url}: no DataNode of HDFS at {address} answers: {text}")
    if "InvalidArgument" in text and ("NameNode" in text or "fs.defaultFS" in text):
        return ClusterUnreachable(
            f"cannot {what} {url}: no NameNode is configured for it; give hdfs://host:port/… or set HADOOP_CONF_DIR"
        )
    if "viewfs fallback" in text:
        table = url.removeprefix("viewfs://").partition("/")[0]
        words = f"hdfs-native demands that core-site.xml set fs.viewfs.mounttable.{table}.linkFallback"
        return StorageError(f"cannot {what} {url}: {words} ({text})")
    return StorageError(f"cannot {what} {url}: {text}")


def _hung_up(text: str) -> str:
    """What else a broken connection may mean: a NameNode with Kerberos ends that of a client without."""
    if "RPC listener disconnected" not in text or conf.demands_kerberos():
        return ""
    return (
        "; if it demands Kerberos, set HADOOP_CONF_DIR to that cluster's configuration, with"
        " hadoop.security.authentication in core-site.xml"
    )


def _exists(text: str, what: str, url: str) -> AfoError:
    if any(word in text for word in _LEASE):
        return StorageError(f"cannot {what} {url}: another process has it open for writing ({text})")
    return AlreadyExists(f"cannot {what} {url}: it exists already")


def _remote(java: str, text: str, what: str, url: str, address: str) -> AfoError:
    """An error that the NameNode answered with."""
    if java == "AccessControlException":
        if "SIMPLE authentication is not enabled" in text:
            return PermissionDenied(
                f"cannot {what} {url}: HDFS at {address} demands Kerberos, of which the configuration says nothing; set"
                " HADOOP_CONF_DIR to that cluster's, with hadoop.security.authentication in core-site.xml"
            )
        return PermissionDenied(f"cannot {what} {url}: {text}")
    if java in _NOT_SERVING:
        return ClusterUnreachable(f"cannot {what} {url}: the NameNode at {address} is not serving yet: {text}")
    return StorageError(f"cannot {what} {url}: {text} ({java})")


def _first_line(text: str) -> str:
    # Rust's debug form writes a line break as backslash-n; Java's stack trace follows it.
    return _shorten(text).replace("\\n", "\n").replace('\\"', '"').split("\n", 1)[0].strip()


def _shorten(text: str) -> str:
    """A message with the protobuf structures in it cut to their kinds, and to the hosts that they name."""
    while begin := _STRUCTURE.search(text):
        end = _end_of_structure(text, begin.end())
        host = _HOST.search(text, begin.end(), end)
        named = f"{begin[1]}({host[1]})" if host else begin[1]
        text = f"{text[: begin.start()]}{named}{text[end:]}"
    return text


def _end_of_structure(text: str, start: int) -> int:
    """Behind its closing brace; the end of a text that has none."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return place + 1
    return len(text)
