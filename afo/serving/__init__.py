"""Serving of exported models in this process, by the library that servers of other languages use, without TensorFlow's
Python.

    from afo.serving import Processor

    with Processor("serving/ctr") as model:
        scores = model.predict({"examples": records})["probabilities"]
"""

from afo.serving.processing import Processor

__all__ = ["Processor"]
