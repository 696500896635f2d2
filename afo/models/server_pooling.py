"""Pooling on the servers: which features' rows are summed there."""

from afo.job import Job, Pooling
from afo.models.feature_layout import Layout

#: `auto` pools on the servers where the rows could be so many times the sums: a batch names some rows several times,
#: and few lists are as long as they may be.
LEAST_RATIO = 4


def pays(values: int, rows: int, servers: int, batch_size: int) -> bool:
    """Whether the sums of a feature's samples, one from each server, are far fewer than the rows that may be named.

    `values`: most ids of a sample; `rows`: of the table, 0 for no bound.
    """
    named = batch_size * values
    return (min(named, rows) if rows else named) >= LEAST_RATIO * servers * batch_size


def is_pooled_on_servers(pooling: Pooling, values: int, rows: int, servers: int, batch_size: int) -> bool:
    """Whether a feature is. One with a single value a sample has nothing to pool."""
    if values == 1 or pooling == "workers":
        return False
    return pooling == "servers" or pays(values, rows, servers, batch_size)


def pooled_on_servers(layout: Layout, job: Job, servers: int) -> tuple[int, ...]:
    """Places in `layout.sparse` of the features that are pooled on the servers; the same in every process of a job."""
    if not layout.hashed:
        return ()
    settings, batch_size = job.model.embedding, job.data.batch_size
    return tuple(
        place
        for place, column in enumerate(layout.sparse)
        if is_pooled_on_servers(settings.pooling_of(column.feature), column.values, column.buckets, servers, batch_size)
    )
