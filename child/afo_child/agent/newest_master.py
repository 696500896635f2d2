"""The newest Application Master: found even while the one before it still answers."""

import logging
import threading

from afo.errors import AfoError
from afo.rpc.client import AmClient

_LOG = logging.getLogger(__name__)


class NewestMaster(threading.Thread):
    """Reads the address file now and then, beside the heartbeats because storage may be slow.

    A call that fails finds the new AM by itself; this is for an old one that lives on, cut off from its journal.
    """

    def __init__(self, client: AmClient, every_s: float = 30.0) -> None:
        super().__init__(name="newest-master", daemon=True)
        self._client, self._every_s = client, every_s
        self._ending = threading.Event()

    def run(self) -> None:
        """Until `stop`."""
        while not self._ending.wait(self._every_s):
            try:
                self._client.follow()
            except AfoError as error:
                _LOG.info("cannot read the AM's address: %s", error)

    def stop(self) -> None:
        """End soon; does not wait."""
        self._ending.set()
