"""The hottest operators of many jobs together, out of the profiles that were taken of them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct

from afo import storage
from afo.errors import NotFound, SpecError
from afo.formats.json_file import decode
from afo.job.paths import JobPaths
from afo.protocol.profile_request import OPERATORS, Operators
from afo_history_server.store.job_files import JobFiles
from afo_history_server.store.lru import Lru

PREFIX = "profile-"
#: Bytes of one profile's small file; jobs whose profiles are remembered, and looked at for one answer, newest first.
MAX_BYTES = 1 << 20
_REMEMBERED, MAX_JOBS = 5000, 500
_HOTTEST = 15


class HotOperator(Struct, frozen=True, kw_only=True):
    """A kind of operator in all profiles together: its share of the time of all operators, and in how many jobs."""

    name: str
    share: float
    milliseconds: float
    jobs: int


class JobProfiles:
    """Remembers those of jobs that have ended. Safe for threads."""

    def __init__(self, files: JobFiles) -> None:
        self._files = files
        self._known: Lru[str, tuple[Operators, ...]] = Lru(_REMEMBERED)

    def of(self, paths: JobPaths, ended: bool) -> tuple[Operators, ...]:
        """All profiles of a job; damaged ones are passed over. Raises what `afo.storage` raises."""
        if ended and (known := self._known.get(paths.job_id)) is not None:
            return known
        found = tuple(self._read(paths))
        return self._known.put(paths.job_id, found) if ended else found

    def _read(self, paths: JobPaths) -> Iterator[Operators]:
        try:
            folders = [entry.url for entry in self._files.list_dir(paths.summaries) if entry.is_dir]
        except NotFound:
            return
        for url in (storage.join(folder, OPERATORS) for folder in folders if storage.name(folder).startswith(PREFIX)):
            try:
                yield decode(self._files.read(url, MAX_BYTES), Operators, url)
            except (NotFound, SpecError):  # being written, or of another version
                continue


def hottest(profiled: Iterable[tuple[Operators, ...]]) -> tuple[HotOperator, ...]:
    """Of one entry for each job; hottest first. Pure."""
    took, jobs = defaultdict[str, float](float), Counter[str]()
    for profiles in profiled:
        operators = [operator for profile in profiles for operator in profile.operators]
        for operator in operators:
            took[operator.name] += operator.milliseconds
        jobs.update({operator.name for operator in operators})
    total = sum(took.values())
    return tuple(
        HotOperator(name=name, share=spent / total, milliseconds=spent, jobs=jobs[name])
        for name, spent in sorted(took.items(), key=lambda pair: -pair[1])[:_HOTTEST]
        if spent > 0
    )
