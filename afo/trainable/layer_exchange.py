"""Ways of a user's embedding rows to a worker: what each layer says, and the job where it says nothing."""

from collections.abc import Iterable, Sequence
from typing import Any

from afo.errors import ModelError
from afo.job import Job
from afo.models.server_pooling import is_pooled_on_servers
from afo.trainable.hashed_lookup import Way
from afo.trainable.lookups import Call, Named


def ways_of(
    embeddings: Iterable[Named], calls: Sequence[Call], job: Job, servers: int, *, with_rows: bool = False
) -> dict[int, Way]:
    """By id of the layer, of those with hash tables. `with_rows`: the rows themselves have to come.

    Raises ModelError for pooling on the servers that cannot be.
    """
    ways = {}
    for embedding in embeddings:
        if embedding.hashed:
            comes = with_rows or embedding.layer.is_regularized
            if comes:
                _require_rows(embedding.layer, job, clips=with_rows)
            own = [call for call in calls if call.layer is embedding.layer]
            is_pooled = not comes and _is_pooled(embedding, own, job, servers)
            ways[id(embedding.layer)] = Way(is_pooled, embedding.layer.wire or job.model.embedding.wire)
    return ways


def _require_rows(layer: Any, job: Job, *, clips: bool) -> None:
    if layer.combiner is not None and (layer.pooling or job.model.embedding.pooling) == "servers":
        reason = "its `embeddings_regularizer` is of each row; give it `pooling='workers'`"
        if clips:
            reason = (
                "the model is compiled with gradient clipping, which needs the gradient of each row; give it"
                " `pooling='workers'`, or clip by `optimizer.embedding`"
            )
        raise ModelError(f"embedding `{layer.name}` cannot be pooled on the servers: {reason}")


def _is_pooled(named: Named, calls: Sequence[Call], job: Job, servers: int) -> bool:
    layer, pooling = named.layer, named.layer.pooling or job.model.embedding.pooling
    if layer.combiner is None:
        return False
    if not named.foresees_weights:
        if pooling == "servers":
            raise ModelError(
                f"embedding `{layer.name}` cannot be pooled on the servers: its weights depend on more than the"
                " features, and would have no gradient; give the layer `pooling='workers'`"
            )
        return False
    # Of a number that is not known before a batch comes it cannot be said that it is large.
    values = min((call.ids.shape[1] or 1 for call in calls), default=1)
    if pooling == "servers":
        return True
    return is_pooled_on_servers(pooling, values, layer.input_dim or 0, servers, job.data.batch_size)
