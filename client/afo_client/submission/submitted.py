"""A submitted job: from its directory, or from this user's own copy until an AM has written it."""

from msgspec import Struct

from afo.errors import NotFound
from afo.formats import decoding
from afo.formats.json_file import decode
from afo.protocol.am_config import AmConfig
from afo.site.config import Config
from afo.site.user_state import UserState
from afo_client.jobs.ref import JobRef


class _Tags(Struct):
    tags: dict[str, str] = {}


class _Tagged(Struct):
    """The part of a submission that every version writes."""

    job: _Tags


def submitted_config(config: Config, ref: JobRef) -> AmConfig | None:
    """None where the AM has not written it yet and another user or machine submitted it.

    Raises `SpecError` for one of another version of afo, and what `afo.storage` raises.
    """
    data = _submission(config, ref)
    return decode(data, AmConfig, ref.paths.job) if data is not None else None


def submitted_tags(config: Config, ref: JobRef) -> dict[str, str]:
    """The tags of the job file, whatever version of afo submitted it; none where it is not known.

    Raises `Malformed` and what `afo.storage` raises.
    """
    data = _submission(config, ref)
    return decoding.from_json(data, _Tagged, ref.paths.job, what="job").job.tags if data is not None else {}


def _submission(config: Config, ref: JobRef) -> bytes | None:
    try:
        return decoding.whole(ref.paths.job)
    except NotFound:
        return UserState(config.state_dir).submission(ref.job_id)


def need_config(config: Config, ref: JobRef) -> AmConfig:
    """As `submitted_config`; raises `NotFound` where there is none."""
    found = submitted_config(config, ref)
    if found is None:
        raise NotFound(
            f"what {ref.job_id} was submitted with is not known yet: its Application Master has not started, and it "
            "was submitted by another user or from another machine; try again once it runs (`afo status`)"
        )
    return found
