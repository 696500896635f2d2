"""The models that are served, as the site's model servers tell of them now."""

import threading
import time
from collections.abc import Callable, Sequence

from flask import Blueprint, render_template
from msgspec import Struct

from afo.errors import AfoError, in_words
from afo.model_servers.control_client import ModelServerClient, read_client_token
from afo.model_servers.served_state import ModelServerState, ServedModel
from afo.site.history import HistorySite
from afo_history_server.store.job_store import JobStore
from afo_history_server.web import query

#: What the servers said is shown again for so long, whoever asks.
FRESH_S = 10.0
#: A server has so long to answer; a page waits a little more for all of them.
ANSWER_S, PATIENCE_S = 1.0, 1.5
#: Of one server on a page.
_MOST_MODELS = 200
_LATE = "it does not answer within a second"


class SeenServer(Struct, frozen=True, kw_only=True):
    """A server, or why it did not answer. `left_out` more models are served by it."""

    address: str
    state: ModelServerState = ModelServerState()
    left_out: int = 0
    problem: str = ""


class Serving(Struct, frozen=True, kw_only=True):
    """A model on a server."""

    server: SeenServer
    model: ServedModel


class LiveServers:
    """Asks all servers at once, at most every `FRESH_S`. While one thread does, others get what was seen before."""

    def __init__(self, site: HistorySite, clock: Callable[[], float]) -> None:
        self._site, self._clock, self._lock = site, clock, threading.Lock()
        self._seen: tuple[SeenServer, ...] | None = None
        self._asked = 0.0
        #: Whoever still waits for a server: it is not asked a second time beside that.
        self._waiting: dict[str, threading.Thread] = {}

    def now(self) -> tuple[SeenServer, ...]:
        """In the order of the configuration."""
        if not self._site.model_servers:
            return ()
        seen = self._seen
        if seen is not None and (self._is_fresh() or not self._lock.acquire(blocking=False)):
            return seen
        if seen is None:
            self._lock.acquire()
        try:
            # While this thread waited, another one may have asked.
            if self._seen is None or not self._is_fresh():
                self._seen, self._asked = self._ask(), self._clock()
            return self._seen
        finally:
            self._lock.release()

    def servings(self, names: Sequence[str], places: Sequence[str]) -> list[Serving]:
        """Of the models that have one of these names, or lie at one of these places."""
        wanted = {_place(place) for place in places if place}
        return [
            Serving(server=server, model=model)
            for server in self.now()
            for model in server.state.models
            if model.name in names or (model.base_path and _place(model.base_path) in wanted)
        ]

    def _is_fresh(self) -> bool:
        return 0 <= self._clock() - self._asked < FRESH_S

    def _ask(self) -> tuple[SeenServer, ...]:
        found: dict[str, SeenServer] = {}
        try:
            file = self._site.model_servers_token_file
            token = read_client_token(file) if file else ""
        except AfoError as error:
            return tuple(SeenServer(address=each, problem=str(error)) for each in self._site.model_servers)
        until = time.monotonic() + PATIENCE_S
        self._waiting = {address: thread for address, thread in self._waiting.items() if thread.is_alive()}
        for address in self._site.model_servers:
            if address not in self._waiting:
                self._waiting[address] = threading.Thread(target=_look, args=(address, token, found), daemon=True)
                self._waiting[address].start()
        for thread in self._waiting.values():
            thread.join(max(0.0, until - time.monotonic()))
        late = (SeenServer(address=address, problem=_LATE) for address in self._site.model_servers)
        return tuple(found.get(each.address, each) for each in late)


def serving_blueprint(store: JobStore, servers: LiveServers) -> Blueprint:
    """The route over the servers of one site."""
    routes = Blueprint("serving", __name__)

    @routes.get("/serving")
    def serving() -> str:
        query.require_known(())
        return render_template("serving.html", servers=servers.now(), now=store.clock())

    return routes


def _look(address: str, token: str, found: dict[str, SeenServer]) -> None:
    try:
        state = ModelServerClient(address, token).state(ANSWER_S)
    except AfoError as error:
        found[address] = SeenServer(address=address, problem=str(error))
        return
    except Exception as error:  # of an answer that brings a fault of ours to light; the page says so
        found[address] = SeenServer(address=address, problem=in_words(error))
        return
    left_out = max(0, len(state.models) - _MOST_MODELS)
    shown = ModelServerState(
        name=state.name, pid=state.pid, started_at=state.started_at, grpc=state.grpc, rest=state.rest,
        models=state.models[:_MOST_MODELS],
    )  # fmt: skip
    found[address] = SeenServer(address=address, state=shown, left_out=left_out)


def _place(url: str) -> str:
    """A path as different words for it have in common: `hdfs:///models/ctr/` is `hdfs://nameservice/models/ctr`."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "file", url
    path = "/" + rest.partition("/")[2] if separator else rest
    return f"{scheme}:{path.rstrip('/')}"
