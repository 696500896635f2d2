"""TensorBoards over the summaries of jobs: started when somebody looks, few at a time, ended when nobody does."""

import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from msgspec import Struct

from afo.errors import AfoError
from afo.tensorboard.process import TensorBoard, tensorboard
from afo.tensorboard.summary_folder import SummaryFolder

#: TensorBoards at a time, and seconds without a request after which one ends.
LIMIT = 4
IDLE_S = 1800.0
#: Resident bytes of one with all its processes, above which it ends, and bytes of its copies of event files.
MAX_RSS = MAX_COPIES = 2 << 30
#: Seconds between looks at one, and between copies of what has grown.
_LOOK_S = 1.0
_REFRESH_S = 15.0
#: Seconds that one may take to end with the server, and ended ones whose reason is remembered.
_CLOSE_S = 10.0
_KEPT_ENDED = 100
#: What keeps its memory in bounds: how often it looks for new data, and how much it keeps of each tag.
_OPTIONS = ("--reload_interval", "10", "--samples_per_plugin", "scalars=1000,images=10,histograms=100",
            "--max_reload_threads", "1")  # fmt: skip


class Shown(Struct, frozen=True):
    """A job in a TensorBoard: the name of its runs there, and where its summaries lie."""

    label: str
    summaries: str


class Board:
    """One TensorBoard, on a thread of its own: when that ends, so does the process.

    It has neither copies nor a process before it has one of the `slots`, and gives that back when both are gone.
    """

    def __init__(
        self, key: str, prefix: str, shown: tuple[Shown, ...], clock: Callable[[], float], slots: threading.Semaphore
    ) -> None:
        self.key = key
        #: Port of this machine once it answers, 0 before.
        self.port = 0
        self.pid = 0
        #: Why it ended, '' while it has not.
        self.ended = ""
        self._prefix, self._shown, self._clock, self._slots = prefix, shown, clock, slots
        self.used = clock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._live, name=f"tensorboard {key}", daemon=True)

    def start(self) -> None:
        """Begin; `port` is there some seconds later."""
        self._thread.start()

    def stop(self, why: str) -> None:
        """End it; returns before it has."""
        self.ended = self.ended or why
        self.port = 0
        self._stop.set()

    def join(self) -> None:
        """Wait until nothing is left of it, within a bound: a file system that does not answer may hold it up."""
        self._thread.join(_CLOSE_S)

    @property
    def title(self) -> str:
        """What it shows."""
        return ", ".join(job.label for job in self._shown)

    def _live(self) -> None:
        try:
            while not self._stop.is_set():
                if self._slots.acquire(timeout=_LOOK_S):
                    self._live_in_slot()
                    return
        except (AfoError, OSError) as error:
            self.stop(str(error))
        finally:
            self.stop("it ended by a bug; the history server's own log says more")  # unless a reason is known

    def _live_in_slot(self) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="afo-tb-") as scratch:
                self._serve(Path(scratch))
        finally:
            self._slots.release()

    def _serve(self, scratch: Path) -> None:
        folders: list[SummaryFolder] = []

        def room() -> int:
            return MAX_COPIES - sum(folder.copied for folder in folders)

        for job in self._shown:
            folders.append(SummaryFolder(job.summaries, scratch / job.label, room, self._stop.is_set))
            folders[-1].refresh()
            if self._stop.is_set():
                return
        options = ("--path_prefix", self._prefix, "--window_title", self.title, *_OPTIONS)
        with tensorboard(sys.executable, scratch, None, *options) as board:
            board.await_listening(self._stop.is_set)
            self.pid = board.pid
            self.port = 0 if self._stop.is_set() else board.port
            self._keep(board, folders)

    def _keep(self, board: TensorBoard, folders: list[SummaryFolder]) -> None:
        refreshed = self._clock()
        while not self._stop.wait(_LOOK_S):
            board.check()
            now = self._clock()
            if now - self.used > IDLE_S:
                self.stop(f"nobody looked at it for {IDLE_S / 60:.0f} minutes")
            elif _rss(board.pid) > MAX_RSS:
                self.stop(f"it used more than {MAX_RSS >> 30} GiB of memory")
            elif now - refreshed > _REFRESH_S:
                for folder in folders:
                    folder.refresh()
                refreshed = now


class TensorBoards:
    """Those of one server. Safe for threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._boards: dict[str, Board] = {}
        self._slots = threading.Semaphore(LIMIT)

    def use(self, key: str, prefix: str, shown: Callable[[], tuple[Shown, ...]]) -> Board:
        """The board of a key, started if there is none; for it, the one unused longest ends where there are many.

        One that has ended by itself is returned until it is forgotten, so that somebody reads why.
        """
        with self._lock:
            board = self._boards.get(key)
            if board is None:
                board = self._start_board(key, prefix, shown())
            board.used = self._clock()
            return board

    def forget(self, board: Board) -> None:
        """Start anew the next time, now that somebody has seen why this one ended."""
        with self._lock:
            if self._boards.get(board.key) is board:
                del self._boards[board.key]

    def count(self) -> int:
        """How many run or begin."""
        with self._lock:
            return sum(not board.ended for board in self._boards.values())

    def close(self) -> None:
        """End all of them and wait until they have."""
        with self._lock:
            boards, self._boards = list(self._boards.values()), {}
        for board in boards:
            board.stop("the history server ends")
        for board in boards:
            board.join()

    def _start_board(self, key: str, prefix: str, shown: tuple[Shown, ...]) -> Board:
        living = sorted((board for board in self._boards.values() if not board.ended), key=lambda board: board.used)
        for board in living[: max(0, len(living) + 1 - LIMIT)]:
            board.stop(f"others were opened, and there are at most {LIMIT}")
        for ended in [name for name, board in self._boards.items() if board.ended][:-_KEPT_ENDED]:
            del self._boards[ended]
        self._boards[key] = Board(key, prefix, shown, self._clock, self._slots)
        self._boards[key].start()
        return self._boards[key]


def _rss(pid: int) -> int:
    try:
        process = psutil.Process(pid)
        return sum(int(member.memory_info().rss) for member in (process, *process.children(recursive=True)))
    except psutil.Error:
        return 0  # it ends just now, which `check` sees
