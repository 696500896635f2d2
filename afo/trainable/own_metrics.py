"""Metrics that a user's model was compiled with, over the records of an evaluation."""

from typing import Any

import keras
import numpy as np

from afo.errors import ModelError
from afo.models.entry import user_code

#: Records that the metrics are given at once.
_BLOCK = 8192
#: A probability is kept this far from 0 and 1 where the model gives log odds.
_CLIP = 1e-7


class OwnMetrics:
    """What `compile(metrics=..., weighted_metrics=...)` was given; nothing for a model that brings none."""

    def __init__(self, module: Any, entry: str) -> None:
        metrics = module.metrics if isinstance(module, keras.Model) and module.compiled else ()
        #: Keras' own container of them, which matches them with the outputs.
        self._compiled: Any = next((metric for metric in metrics if type(metric).__name__ == "CompileMetrics"), None)
        self._entry = entry

    def __bool__(self) -> bool:
        """Whether there are any."""
        return self._compiled is not None

    def of(self, labels: Any, scores: Any) -> dict[str, float]:
        """Values by name, of nests of [n, …] in the structure of the model's outputs; each record counts once.

        Raises ModelError for one that raises, or that is not one number.
        """
        flat = keras.tree.flatten(labels)
        with user_code(self._entry):
            self._compiled.reset_state()
            for start in range(0, len(flat[0]), _BLOCK):
                place = slice(start, start + _BLOCK)
                block = [
                    keras.tree.map_structure(lambda values, place=place: values[place], it) for it in (labels, scores)
                ]
                self._compiled.update_state(*block)
            found = self._compiled.result()
        return {name: self._number(name, value) for name, value in found.items()}

    def _number(self, name: str, value: Any) -> float:
        number = np.asarray(value)
        if number.ndim:
            shape = list(number.shape)
            raise ModelError(f"{self._entry}: metric `{name}` is {shape} values; a job keeps one number of each")
        return float(number)


def log_odds(probabilities: Any) -> Any:
    """float32 of the same shape."""
    kept = np.clip(probabilities.astype(np.float64), _CLIP, 1 - _CLIP)
    return (np.log(kept) - np.log1p(-kept)).astype(np.float32)
