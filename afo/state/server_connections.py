"""Connections between a client (worker, chief) and the parameter servers."""

import os
import re
import socket
from contextlib import AbstractContextManager, nullcontext

import tensorflow as tf

from afo.errors import ClusterUnreachable
from afo.process import hosts
from afo.process.hosts import host_of, host_port

#: What TensorFlow raises when a parameter server is gone, or came back without its variables.
LOST_SERVER = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.DeadlineExceededError,
    tf.errors.CancelledError,
    tf.errors.FailedPreconditionError,
    tf.errors.NotFoundError,
)
#: InvalidArgumentError of a restarted server, which does not know this client's context.
_UNKNOWN_CONTEXT = "context_id"
#: Of a message of TensorFlow's: the line ahead of the operation's name, which follows where that was defined.
_REASON = re.compile(r"^(?P<reason>\S.*)\n\s*\[\[\{\{node ", re.MULTILINE)
_OPERATIONS = re.compile(r"\{\{function_node [^}]*\}\} ?| ?\[Op:[^\]]*\]( name:.*)?")


def is_lost_server(error: BaseException) -> bool:
    """Whether `error` of a step means that this process must be started anew, and not that its graph is wrong."""
    if isinstance(error, LOST_SERVER):
        return True
    return isinstance(error, tf.errors.InvalidArgumentError) and _UNKNOWN_CONTEXT in str(error)


def reason_of(error: BaseException) -> str:
    """What an error of a step says, in one line without the functions that defined its operation."""
    text = str(error)
    found = _REASON.search(text)
    return _OPERATIONS.sub("", found["reason"] if found else text.strip().partition("\n")[0]).strip()


def connect(servers: tuple[str, ...], address: str = "") -> AbstractContextManager[object]:
    """Make this process an independent client of the parameter servers.

    They pull tensors from the client at the address that it gives them, so that must be one they can reach; the
    default (localhost) works on one machine only. It is `address`, the entrance of a tunnel, or else one of its own,
    whose port is kept until what is returned ends. Raises ClusterUnreachable.
    """
    own, keeper = (address, nullcontext()) if address else _reserve(servers[0])
    os.environ.setdefault(hosts.LISTEN_VARIABLE, hosts.listen_place(own))
    cluster = tf.train.ClusterSpec({"ps": list(servers), "worker": [own]})
    try:
        tf.config.experimental_connect_to_cluster(cluster, job_name="worker", task_index=0)
    except (tf.errors.OpError, RuntimeError) as error:
        raise ClusterUnreachable(f"cannot connect to the parameter servers {', '.join(servers)}: {error}") from error
    return keeper


def _own_host(server: str) -> str:
    """This machine's address on the way to `server` (`host:port`); connecting a datagram socket sends nothing."""
    try:
        port = int(server.rpartition(":")[2])
        family, kind, protocol, _, address = socket.getaddrinfo(host_of(server), port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except (OSError, ValueError) as error:
        raise ClusterUnreachable(f"cannot find the way to the parameter server {server}: {error}") from error


def _reserve(server: str) -> tuple[str, AbstractContextManager[object]]:
    """`host:port` with a free port, held by a bound socket that never listens; TensorFlow may join it."""
    host = _own_host(server)
    keeper = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    keeper.bind((host, 0))
    return host_port(host, keeper.getsockname()[1]), keeper
