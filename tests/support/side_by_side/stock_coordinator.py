"""ParameterServerStrategy with a ClusterCoordinator, as its documentation recommends for tasks that fail.

"Handling Task Failure" in the API documentation of tf.distribute.coordinator.ClusterCoordinator: workers may go and
come back; after the loss of a parameter server `schedule` or `join` raises UnavailableError and the coordinator is
started again, by whoever started it; so it saves checkpoints regularly and begins with the newest.
"""

import argparse
import json
import time

import tensorflow as tf

#: What /proc/self/stat begins with is the id of the process that reads it: the worker which runs the step.
STAT = "/proc/self/stat"


def main() -> None:
    """Serve, or coordinate for ever."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--model-dir", required=True)
    arguments.add_argument("--progress", required=True)
    arguments.add_argument("--checkpoint-s", type=float, required=True)
    options = arguments.parse_args()
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
        )
        server.join()
    coordinate(tf.distribute.ParameterServerStrategy(resolver), options)


def coordinate(strategy: tf.distribute.ParameterServerStrategy, options: argparse.Namespace) -> None:
    """Fits y = 2a - 3b + 1, from the newest checkpoint on."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():  # one after the other on ps:0, ps:1, ps:0
        step, weights, bias = tf.Variable(0, dtype=tf.int64), tf.Variable([0.0, 0.0]), tf.Variable(0.0)
    saved = tf.train.Checkpoint(weights=weights, bias=bias, step=step)
    manager = tf.train.CheckpointManager(saved, options.model_dir, max_to_keep=3)
    saved.restore(manager.latest_checkpoint)

    @tf.function
    def one_step() -> tf.Tensor:
        def replica() -> tf.Tensor:
            features = tf.random.uniform([64, 2], -1.0, 1.0)
            with tf.GradientTape() as tape:
                error = tf.linalg.matvec(features, weights) + bias - (2 * features[:, 0] - 3 * features[:, 1] + 1)
                loss = tf.reduce_mean(error**2)
            for variable, gradient in zip((weights, bias), tape.gradient(loss, (weights, bias)), strict=True):
                variable.assign_sub(0.02 * gradient)
            # A name that depends on the step is no constant, so the file is read in every step.
            nothing = tf.strings.substr(tf.strings.as_string(step.assign_add(1, read_value=True)), 0, 0)
            return tf.io.read_file(tf.strings.join([STAT, nothing]))

        return strategy.run(replica)

    saved_at = time.monotonic()
    with open(options.progress, "a", buffering=1) as progress:
        while True:
            results = [coordinator.schedule(one_step) for _ in range(10)]
            coordinator.join()
            by = {int(bytes(coordinator.fetch(result)).split()[0]) for result in results}
            made = int(step.numpy())
            progress.write(json.dumps({"time": time.time(), "step": made, "by": sorted(by)}) + "\n")
            if time.monotonic() - saved_at > options.checkpoint_s:
                manager.save(checkpoint_number=made)
                saved_at = time.monotonic()
            time.sleep(0.1)


if __name__ == "__main__":
    main()
