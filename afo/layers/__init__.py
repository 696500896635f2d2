"""Keras layers whose weights live on the parameter servers while a job of afo trains them."""

from afo.layers.embedding import Embedding

__all__ = ["Embedding"]
