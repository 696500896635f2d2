"""Delegation tokens from a NameNode by its REST interface, for who has a ticket.

hdfs-native has no call for it. Formats: https://hadoop.apache.org/docs/r3.4.1/hadoop-project-dist/hadoop-hdfs/WebHDFS.html
"""

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import msgspec

from afo.errors import AfoError, ClusterUnreachable, NotFound, PermissionDenied, ProtocolError
from afo.hadoop import conf, delegation_tokens
from afo.hadoop.delegation_tokens import Token
from afo.hadoop.spnego import Negotiation

_CALL_S = 20.0
_HA = "ha-hdfs:"


def new_token(service: str, user: str) -> tuple[Token, float]:
    """A token of `user` for the NameNode that `service` of another token names, and when it expires (s since 1970).

    It is its owner who renews it. Raises `NotFound` for a service that the configuration does not know,
    `PermissionDenied` without a ticket, `ClusterUnreachable`, `ProtocolError`.
    """
    last: AfoError = NotFound(f"hdfs-site.xml tells no web address of the NameNode of {service}")
    for address in _web_addresses(service):
        try:
            answer = _ask("GET", f"{address}/webhdfs/v1/", op="GETDELEGATIONTOKEN", renewer=user)
            text = _field(_field(answer, "Token", dict), "urlString", str)
            renewed = _ask("PUT", f"{address}/webhdfs/v1/", op="RENEWDELEGATIONTOKEN", token=text)
            token = delegation_tokens.of_url_text(text)._replace(kind=delegation_tokens.HDFS, service=service)
            return token, _field(renewed, "long", int) / 1000
        except ClusterUnreachable as error:  # also a NameNode on standby
            last = error
    raise last


def _web_addresses(service: str) -> Iterator[str]:
    """`http(s)://host:port` of each NameNode that gives tokens of this service."""
    secure = conf.setting("dfs.http.policy") == "HTTPS_ONLY"
    key = f"dfs.namenode.{'https' if secure else 'http'}-address"
    suffixes = [""]
    if service.startswith(_HA):
        name = service.removeprefix(_HA)
        ids = (conf.setting(f"dfs.ha.namenodes.{name}") or "").split(",")
        suffixes = [f".{name}.{namenode.strip()}" for namenode in ids]
    for suffix in suffixes:
        if address := conf.setting(f"{key}{suffix}"):
            yield f"{'https' if secure else 'http'}://{address}"


def _ask(method: str, url: str, **query: str) -> dict[str, Any]:
    request = urllib.request.Request(f"{url}?{urllib.parse.urlencode(query)}", method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), Negotiation(delegation_tokens.HDFS))
    try:
        with opener.open(request, timeout=_CALL_S) as response:
            return msgspec.json.decode(response.read(), type=dict[str, Any])
    except PermissionDenied:
        raise
    except urllib.error.HTTPError as error:
        with error:
            raise _translate_refusal(url, error.code, error.read()) from error
    except OSError as error:
        raise ClusterUnreachable(f"the NameNode at {url} does not answer: {getattr(error, 'reason', error)}") from error
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"{url} answers, but not as a NameNode does: {error}") from error


def _translate_refusal(url: str, code: int, body: bytes) -> AfoError:
    """The query is left out of the words: it may hold a token."""
    try:
        remote = msgspec.json.decode(body, type=dict[str, dict[str, Any]])["RemoteException"]
    except (msgspec.MsgspecError, KeyError):
        remote = {}
    words = f"the NameNode at {url} gives no token: {remote.get('message', f'HTTP {code}')}"
    if remote.get("exception") in ("StandbyException", "RetriableException", "SafeModeException"):
        return ClusterUnreachable(words)
    return PermissionDenied(words)


def _field(answer: dict[str, Any], name: str, kind: type) -> Any:
    value = answer.get(name)
    if not isinstance(value, kind):
        raise ProtocolError(f"the NameNode's answer has no {name}")
    return value
