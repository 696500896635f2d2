"""Handles of resources within a traced function."""

from typing import Any


def run_independently(handle: Any) -> Any:
    """`handle`, for which nothing else waits.

    TensorFlow runs stateful operations without a resource among their inputs one after another. For handles on several
    servers that would be a message from each server to the next one before the first of them can do anything.
    """
    import tensorflow as tf

    if not tf.executing_eagerly():
        manager = getattr(handle.graph, "experimental_acd_manager", None)
        if manager is not None:
            manager.run_independently(handle.op)
    return handle
