"""A TensorFlow 1 program: between-graph replication, asynchronous, with a MonitoredTrainingSession.

It fits y = 2a - 3b + 1. Each worker builds the graph with the variables on the parameter servers and steps until all
have made `--steps` together; the chief saves, and writes what came out to result.json beside the checkpoints.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def main() -> None:
    """Serve, or train."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, default=500)
    arguments.add_argument("--pause", type=float, default=0.0, help="Seconds between steps.")
    options = arguments.parse_args()
    config = json.loads(os.environ["TF_CONFIG"])
    role, index = config["task"]["type"], config["task"]["index"]
    cluster = tf.train.ClusterSpec(config["cluster"])
    server = tf.train.Server(cluster, job_name=role, task_index=index)
    if role == "ps":
        server.join()
    is_chief = role == "chief" or ("chief" not in config["cluster"] and index == 0)
    train(server, tf.train.replica_device_setter(cluster=cluster), is_chief, options)


def train(server: tf.train.Server, devices: object, is_chief: bool, options: argparse.Namespace) -> None:
    """Step until all workers together have made the steps."""
    features = np.random.default_rng(7).uniform(-1, 1, (64, 2)).astype(np.float32)
    with tf.device(devices):
        step = tf.train.get_or_create_global_step()
        weights, bias = tf.get_variable("weights", [2]), tf.get_variable("bias", [])
        loss = tf.reduce_mean((tf.linalg.matvec(features, weights) + bias - target(features)) ** 2)
        train_op = tf.train.GradientDescentOptimizer(0.2).minimize(loss, global_step=step)
    model_dir = Path(os.environ["AFO_MODEL_DIR"])
    with tf.train.MonitoredTrainingSession(
        server.target, is_chief=is_chief, checkpoint_dir=str(model_dir), save_checkpoint_steps=50,
        save_summaries_steps=None, save_summaries_secs=None,
        hooks=[tf.train.StopAtStepHook(last_step=options.steps)],
    ) as session:  # fmt: skip
        made, values = session.run([step, [weights, bias]])
        began = int(made)
        print(f"begins at step {began}", flush=True)
        while made < options.steps and not session.should_stop():
            _, made, values = session.run([train_op, step, [weights, bias]])
            time.sleep(options.pause)
    if is_chief:
        result = {"weights": values[0].tolist(), "bias": float(values[1]), "step": int(made), "began": began}
        (model_dir / "result.json").write_text(json.dumps(result))


def target(features: np.ndarray) -> np.ndarray:
    """What is to be learned."""
    return 2 * features[:, 0] - 3 * features[:, 1] + 1


if __name__ == "__main__":
    main()
