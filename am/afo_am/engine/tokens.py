"""Delegation tokens for a job that outlives those it was submitted with, obtained by a keytab in the AM's container.

The AM gets new ones well before the present ones end, uses them itself, and tells each Child by the number in its
directive that there are some; the Child fetches them and puts them where its processes look. `docs/kerberos.md`.
"""

import logging
import threading
import time
from collections.abc import Callable

from msgspec.structs import replace

from afo.errors import AfoError, NotFound
from afo.hadoop import delegation_tokens, webhdfs
from afo.rpc import messages as m

_LOG = logging.getLogger(__name__)
#: hdfs-native takes no token that has less than this to live, in seconds; and we are earlier still.
_UNUSED_S = 60.0
#: Of the time that a token may be used, so much passes before the next one is obtained.
_SHARE = 0.5
#: After a failure, in seconds, and the longest such pause; the tokens that are there are good for some time.
_RETRY_S, _LONGEST_S = 15.0, 600.0


class TokenKeeper:
    """Obtains tokens from the start of `start` on until `stop`. `user` is whose they are."""

    def __init__(self, user: str) -> None:
        self._user = user
        #: (number, file); as one, for threads that read it.
        self._newest = (0, b"")
        self._pause = _RETRY_S
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tokens", daemon=True)

    def start(self) -> None:
        """Return with fresh tokens where they can be had now; go on in a thread."""
        self._due = time.monotonic() + self._refresh()
        self._thread.start()

    def stop(self) -> None:
        """No more; waits."""
        self._ending.set()
        self._thread.join()

    def give(self, request: m.TokensRequest) -> m.TokensReply:
        """The newest. Raises NotFound before there are any."""
        del request
        number, content = self._newest
        if not number:
            raise NotFound("this job obtains no delegation tokens; YARN's are in the container")
        return m.TokensReply(number=number, content=content)

    def wrap_handler(self, handler: Callable[[m.Message], m.Message]) -> Callable[[m.Message], m.Message]:
        """The handler of a Child's call, with the number of the newest tokens in the directive that it answers."""

        def answer(request: m.Message) -> m.Message:
            reply = handler(request)
            return replace(reply, tokens=self._newest[0]) if isinstance(reply, m.Directive) else reply

        return answer

    def _run(self) -> None:
        while not self._ending.wait(max(0.0, self._due - time.monotonic())):
            self._due = time.monotonic() + self._refresh()

    def _refresh(self) -> float:
        """Seconds after which to obtain tokens again."""
        try:
            present = delegation_tokens.load_tokens()
            expiries, obtained = [], []
            for token in present:
                if token.kind == delegation_tokens.HDFS:
                    new, expiry = webhdfs.new_token(token.service, self._user)
                    obtained.append(new)
                    expiries.append(min(expiry, delegation_tokens.last_day(new) - _UNUSED_S))
            content = delegation_tokens.encode(
                (*(token for token in present if token.kind != delegation_tokens.HDFS), *obtained)
            )
            delegation_tokens.replace(content)
        except AfoError as error:
            pause, self._pause = self._pause, min(2 * self._pause, _LONGEST_S)
            _LOG.warning("no new delegation tokens, trying again in %g s: %s", pause, error)
            return pause
        self._pause = _RETRY_S
        self._newest = (self._newest[0] + 1, content)
        life = min(expiries, default=float("inf")) - time.time()
        _LOG.info("delegation tokens %d for %d file systems, good for %.0f s", self._newest[0], len(obtained), life)
        return max(_SHARE * min(life, 86400.0), 1.0)
