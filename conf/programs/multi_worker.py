"""MultiWorkerMirroredStrategy: each worker holds the model, and all make every step together.

It fits y = 2a - 3b + 1, saves a checkpoint now and then, and writes what came out to result.json beside them.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import tensorflow as tf


def main() -> None:
    """Train."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, default=200)
    arguments.add_argument("--pause", type=float, default=0.0, help="Seconds between steps.")
    options = arguments.parse_args()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    resolver = strategy.cluster_resolver
    is_chief = resolver.task_type == "chief" or ("chief" not in resolver.cluster_spec().jobs and resolver.task_id == 0)
    train(strategy, is_chief, options)


def train(strategy: tf.distribute.MultiWorkerMirroredStrategy, is_chief: bool, options: argparse.Namespace) -> None:
    """Make the steps that are missing."""
    with strategy.scope():
        weights, bias = tf.Variable([0.0, 0.0]), tf.Variable(0.0)
        step = tf.Variable(0, dtype=tf.int64)
    model_dir = Path(os.environ["AFO_MODEL_DIR"])
    saved = tf.train.Checkpoint(weights=weights, bias=bias, step=step)
    saved.restore(tf.train.latest_checkpoint(str(model_dir)))
    # All workers save, as TensorFlow demands it; only the chief's files are kept.
    with tempfile.TemporaryDirectory() as elsewhere:
        manager = tf.train.CheckpointManager(saved, str(model_dir) if is_chief else elsewhere, max_to_keep=2)
        began = int(step.numpy())
        print(f"begins at step {began}", flush=True)
        one_step = make_step(strategy, weights, bias, step)
        while int(step.numpy()) < options.steps:
            one_step()
            if int(step.numpy()) % 20 == 0:
                manager.save(checkpoint_number=int(step.numpy()))
            time.sleep(options.pause)
    if is_chief:
        result = {"weights": weights.numpy().tolist(), "bias": float(bias.numpy()), "step": int(step.numpy())}
        (model_dir / "result.json").write_text(json.dumps({**result, "began": began}))


def make_step(strategy: tf.distribute.Strategy, *variables: tf.Variable) -> object:
    """A step of gradient descent on the mean gradient of all workers."""
    weights, bias, step = variables

    def replica() -> None:
        features = tf.random.uniform([64, 2], -1.0, 1.0)
        with tf.GradientTape() as tape:
            error = tf.linalg.matvec(features, weights) + bias - (2 * features[:, 0] - 3 * features[:, 1] + 1)
            loss = tf.reduce_mean(error**2)
        gradients = tf.distribute.get_replica_context().all_reduce("mean", tape.gradient(loss, [weights, bias]))
        for variable, gradient in zip((weights, bias), gradients, strict=True):
            variable.assign_sub(0.2 * gradient)
        step.assign_add(1)

    return tf.function(lambda: strategy.run(replica))


if __name__ == "__main__":
    main()
