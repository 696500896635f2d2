"""ParameterServerStrategy with a ClusterCoordinator: the chief schedules steps, workers and parameter servers serve.

It fits y = 2a - 3b + 1, saves a checkpoint now and then, and writes what came out to result.json beside them.
The workers never end by themselves: the job file says `ends_with: chief`.
"""

import argparse
import json
import os
import time
from pathlib import Path

import tensorflow as tf


def main() -> None:
    """Serve, or coordinate."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, default=300)
    arguments.add_argument("--pause", type=float, default=0.0, help="Seconds between rounds of ten steps.")
    options = arguments.parse_args()
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
        )
        server.join()
    coordinate(tf.distribute.ParameterServerStrategy(resolver), options)


def coordinate(strategy: tf.distribute.ParameterServerStrategy, options: argparse.Namespace) -> None:
    """Schedule the steps that are missing."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights, bias = tf.Variable([0.0, 0.0]), tf.Variable(0.0)
        step = tf.Variable(0, dtype=tf.int64)
    model_dir = Path(os.environ["AFO_MODEL_DIR"])
    saved = tf.train.Checkpoint(weights=weights, bias=bias, step=step)
    manager = tf.train.CheckpointManager(saved, str(model_dir), max_to_keep=2)
    saved.restore(manager.latest_checkpoint)
    began = int(step.numpy())
    print(f"begins at step {began}", flush=True)

    @tf.function
    def one_step() -> None:
        def replica() -> None:
            features = tf.random.uniform([64, 2], -1.0, 1.0)
            with tf.GradientTape() as tape:
                error = tf.linalg.matvec(features, weights) + bias - (2 * features[:, 0] - 3 * features[:, 1] + 1)
                loss = tf.reduce_mean(error**2)
            for variable, gradient in zip((weights, bias), tape.gradient(loss, (weights, bias)), strict=True):
                variable.assign_sub(0.2 * gradient)
            step.assign_add(1)

        strategy.run(replica)

    while int(step.numpy()) < options.steps:
        for _ in range(10):
            coordinator.schedule(one_step)
        coordinator.join()
        manager.save(checkpoint_number=int(step.numpy()))
        time.sleep(options.pause)
    result = {"weights": weights.numpy().tolist(), "bias": float(bias.numpy()), "step": int(step.numpy())}
    (model_dir / "result.json").write_text(json.dumps({**result, "began": began}))


if __name__ == "__main__":
    main()
