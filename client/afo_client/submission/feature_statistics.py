"""Statistics of a job's features as it is submitted, of a few records, for its page in the history server."""

from afo.data.prepare.profile import Look, Profile, profile_splits
from afo.data.schema import parse_schema
from afo.errors import AfoError
from afo.job import Job
from afo_client.submission.inspection import Inspection
from afo_client.terminal.console import say

#: Files, spread over all, records of each, and values in all: half a second.
_FILES, _RECORDS, _VALUES = 4, 500, 100_000


def feature_statistics(job: Job, found: Inspection) -> Profile | None:
    """Of training and evaluation data, by the first label; None of a program, and of data that cannot be read so far.

    The training may still pass over damaged records, so that is no reason not to start.
    """
    if job.program:
        return None
    schema = parse_schema(found.schema_text, job.data.schema or "the inferred schema")
    label = job.data.labels[0]
    names = frozenset({label, *(feature.name for feature in schema.features)})
    look = Look(records=_RECORDS, files=_FILES, values=_VALUES, names=names, data=job.data)
    try:
        return profile_splits(found.train, found.eval, label, look)
    except AfoError as error:
        say(f"warning: no statistics of the features are kept: {error}")
        return None
