"""Between-graph replication with a MonitoredTrainingSession, asynchronous, as TensorFlow 1 recommends it.

The session recovers by itself from AbortedError and UnavailableError (documentation of MonitoredSession: "it recovers
or reinitializes the session"); the chief saves, and begins with the newest checkpoint. Each task's session sees only
the parameter servers and itself (`device_filters`, as tf.estimator.RunConfig sets them), so that it does not wait for
the others.
"""

import argparse
import json
import os
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def main() -> None:
    """Serve, or train for ever."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--model-dir", required=True)
    arguments.add_argument("--progress", required=True)
    arguments.add_argument("--checkpoint-s", type=float, required=True)
    options = arguments.parse_args()
    config = json.loads(os.environ["TF_CONFIG"])
    role, index = config["task"]["type"], config["task"]["index"]
    cluster = tf.train.ClusterSpec(config["cluster"])
    filters = ["/job:ps", f"/job:{role}/task:{index}"]
    if role == "ps":
        tf.train.Server(cluster, job_name=role, task_index=index).join()
    session_config = tf.ConfigProto(device_filters=filters)
    server = tf.train.Server(cluster, job_name=role, task_index=index, config=session_config)
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=f"/job:{role}/task:{index}")):
        train(server.target, session_config, options, is_chief=role == "chief")


def train(target: str, config: tf.ConfigProto, options: argparse.Namespace, *, is_chief: bool) -> None:
    """Fits y = 2a - 3b + 1."""
    features = np.random.default_rng(7).uniform(-1, 1, (64, 2)).astype(np.float32)
    wanted = 2 * features[:, 0] - 3 * features[:, 1] + 1
    step = tf.train.get_or_create_global_step()
    weights, bias = tf.get_variable("weights", [2]), tf.get_variable("bias", [])
    loss = tf.reduce_mean((tf.linalg.matvec(tf.constant(features), weights) + bias - wanted) ** 2)
    train_op = tf.train.GradientDescentOptimizer(0.02).minimize(loss, global_step=step)
    written = 0.0
    with (
        open(options.progress, "a", buffering=1) as progress,
        tf.train.MonitoredTrainingSession(
            target, is_chief=is_chief, checkpoint_dir=options.model_dir, save_checkpoint_secs=options.checkpoint_s,
            save_summaries_steps=None, save_summaries_secs=None, config=config,
        ) as session,
    ):  # fmt: skip
        while not session.should_stop():
            _, made = session.run([train_op, step])
            if time.time() - written > 0.2:
                written = time.time()
                progress.write(json.dumps({"time": written, "step": int(made), "by": [os.getpid()]}) + "\n")
            time.sleep(0.02)


if __name__ == "__main__":
    main()
