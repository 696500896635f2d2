"""Filter of a fragment's records: without negatives that are not sampled and what cannot be parsed.

Negatives are sampled by a hash of the sample id: the same ones in every epoch and every process.

What is left out is accounted for by whatever comes behind it (`afo.data.pipeline.batch_fragments`).
"""

from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from afo.data.pipeline.bad_record_locator import Judge, misfit
from afo.data.pipeline.batch_fragments import Carry, Piece, as_tensors, filter_records
from afo.job import Data, NegativeSampling
from afo.models import hashing
from afo.models.parser import RecordParser

#: Of SplitMix64.
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_INCREMENT = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


class Sieve:
    """Sifts the pieces of a job's splits. `path` is where a piece's split lies locally."""

    def __init__(self, data: Data, parser: RecordParser, judge: Judge) -> None:
        self._data, self._parser, self._judge = data, parser, judge

    def sample_negatives(self, piece: Piece, path: Path, carry: Carry) -> Piece:
        """The piece without the negatives that are not trained on, which go into `carry`."""
        chosen = self._data.negative_sampling
        if chosen is None or not piece.size:
            return piece
        try:
            parsed = self._parser.outputs(as_tensors(piece.block))
        except tf.errors.InvalidArgumentError as error:
            good = self.sound(piece, path, carry)
            require_bad([piece], [good], error)
            return self.sample_negatives(good, path, carry)
        identity = parsed.identity.numpy()
        keep = sampled_mask(parsed.labels.numpy(), identity, chosen, self._data.shuffle.seed)
        return filter_records(piece, keep, identity, carry)

    def sound(self, piece: Piece, path: Path, carry: Carry) -> Piece:
        """The piece without the records that cannot be parsed, which go into `carry`. Raises DataError if none may."""
        keep = self._judge.check_records(piece.block, piece.lease, path)
        identity = np.zeros(piece.size, np.int64)
        if not keep.all():
            # Its id may be what is wrong with it, so such a record is known by its bytes.
            hashed = hashing.hash_strings(tf.boolean_mask(piece.block, ~keep))
            identity[~keep] = tf.bitcast(hashed, tf.int64).numpy()
        return filter_records(piece, keep, identity, carry)


def require_bad(before: list[Piece], after: list[Piece], error: tf.errors.OpError) -> None:
    """Raises DataError if it was no record that `error` complains of."""
    if sum(piece.size for piece in before) == sum(piece.size for piece in after):
        raise misfit(sorted({piece.lease.url for piece in before}), error) from error


def sampled_mask(
    labels: NDArray[np.float32], identity: NDArray[np.int64], sampling: NegativeSampling, seed: int
) -> NDArray[np.bool_]:
    """Which of B samples are trained on: all with a positive label, of the others a share.

    `labels` [B, labels]; `identity` [B] are hashed sample ids, which `seed` hashes once more.
    """
    drawn = _mix_bits(identity.view(np.uint64) ^ np.uint64((seed + 1) * _INCREMENT & _MASK))
    # 53 bits are what a float64 holds exactly.
    share = (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return (labels > 0).any(axis=1) | (share < sampling.keep)


def _mix_bits(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    for shift, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
        values = (values ^ (values >> np.uint64(shift))) * multiplier
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed
