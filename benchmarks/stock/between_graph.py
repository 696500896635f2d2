"""Wide & Deep as a program of TensorFlow's first version: a graph a worker, variables on the parameter servers.

Every task runs this with its TF_CONFIG; workers do not wait for each other. Worker 0 is the chief, which initialises,
saves and exports.
"""

import json
import os
import time

import tensorflow.compat.v1 as tf
from clicks import CROSSES, IDS, SPECS, arguments, dataset, mean_and_deviation, numbers_of, rows_of
from lazy_adam import LazyAdam

tf.disable_v2_behavior()
tf.enable_resource_variables()

OPTIMIZERS = {
    "adagrad": lambda: tf.train.AdagradOptimizer(0.05, initial_accumulator_value=0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.001),
    "lazy_adam": lambda: LazyAdam(0.001),
}


def main():
    options = arguments(__doc__, OPTIMIZERS)
    config = json.loads(os.environ["TF_CONFIG"])
    role, index = config["task"]["type"], config["task"]["index"]
    cluster = tf.train.ClusterSpec(config["cluster"])
    if role == "ps":
        tf.train.Server(cluster, job_name=role, task_index=index).join()
    # A session sees the parameter servers and its own worker, so that it does not wait for the other.
    session_config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])
    server = tf.train.Server(cluster, job_name=role, task_index=index, config=session_config)
    files = sorted(tf.io.gfile.glob(options.train))
    moments = mean_and_deviation(files[0])
    setter = tf.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{index}")
    with tf.Graph().as_default(), tf.device(setter):
        tf.set_random_seed(options.seed)
        train(server.target, session_config, cluster, files, moments, index, options)
    if index == 0:
        export(moments, options)


def train(target, session_config, cluster, files, moments, index, options):
    """This worker's share of the files; the chief waits for the others."""
    workers = cluster.num_tasks("worker")
    own = dataset(files[index::workers], batch_size=options.batch_size, epochs=options.epochs, seed=options.seed)
    features, label = tf.data.make_one_shot_iterator(own).get_next()
    log_odds = model(features, moments, options, tf.fixed_size_partitioner(cluster.num_tasks("ps")))
    train_op, size = trained(log_odds, label, options), tf.size(label)
    finished = tf.get_variable("finished", [], tf.int32, tf.zeros_initializer(), trainable=False)
    finish = finished.assign_add(1)
    wait_for_chief(options.model_dir, is_chief=index == 0)
    with tf.train.MonitoredTrainingSession(
        target, is_chief=index == 0, checkpoint_dir=options.model_dir, save_checkpoint_secs=600,
        save_summaries_steps=None, save_summaries_secs=None, log_step_count_steps=None, config=session_config,
    ) as session:  # fmt: skip
        session.run(train_op)
        began, samples = time.monotonic(), 0
        try:
            while True:
                samples += session.run([train_op, size])[1]
        except tf.errors.OutOfRangeError:
            session.run(finish)
        while index == 0 and session.run(finished) < workers:
            time.sleep(0.05)
        print(json.dumps({"samples": int(samples), "train_seconds": time.monotonic() - began}), flush=True)


def wait_for_chief(model_dir, *, is_chief):
    """Until the first checkpoint is there; a session that comes before the variables are waits for half a minute."""
    while not is_chief and tf.train.latest_checkpoint(model_dir) is None:
        time.sleep(0.1)


def model(features, moments, options, partitioner=None):
    """Log odds [B]."""
    deep_rows, wide_rows = rows_of(features, options.buckets)
    first = tf.random_normal_initializer(stddev=0.05)
    deep = table("deep", len(IDS) * options.buckets, options.dim, first, partitioner)
    wide = table("wide", (len(IDS) + len(CROSSES)) * options.buckets, 1, tf.zeros_initializer(), partitioner)
    embeddings = tf.reshape(looked_up(deep, deep_rows, options.dim), [-1, len(IDS) * options.dim])
    mean, deviation = moments
    hidden = tf.concat([embeddings, (numbers_of(features) - mean) / deviation], axis=1)
    for number, units in enumerate(options.hidden):
        hidden = tf.nn.relu(dense(hidden, units, f"layer{number}", options.precision))
    linear = tf.reduce_sum(looked_up(wide, wide_rows, 1), axis=[1, 2])
    return dense(hidden, 1, "output", options.precision)[:, 0] + linear


def table(name, rows, dim, initializer, partitioner):
    return tf.get_variable(name, [rows, dim], initializer=initializer, partitioner=partitioner)


def looked_up(table, rows, dim):
    """[B, features, dim]; each different row is asked for once."""
    different, places = tf.unique(tf.reshape(rows, [-1]))
    values = tf.nn.embedding_lookup(table, different, partition_strategy="div")
    return tf.reshape(tf.gather(values, places), [-1, rows.shape[1], dim])


def dense(inputs, units, name, precision):
    """A layer that computes in `precision`; its weights, and what it returns, are float32."""
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [inputs.shape[1], units], initializer=tf.glorot_uniform_initializer())
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
    inputs, kernel = tf.cast(inputs, precision), tf.cast(kernel, precision)
    return tf.cast(tf.matmul(inputs, kernel) + tf.cast(bias, precision), tf.float32)


def trained(log_odds, label, options):
    """The operation of a step."""
    loss = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=log_odds))
    size = tf.cast(tf.size(label), tf.float32)
    optimizer = OPTIMIZERS[options.optimizer]()
    # The sum over the batch for tables, where a row is in few of its samples, and the mean for layers.
    gradients = [
        (gradient if isinstance(gradient, tf.IndexedSlices) else gradient / size, variable)
        for gradient, variable in optimizer.compute_gradients(loss)
    ]
    return optimizer.apply_gradients(gradients, global_step=tf.train.get_or_create_global_step())


def export(moments, options):
    """A SavedModel of the whole model, on this machine, from serialized samples to probabilities."""
    with tf.Graph().as_default(), tf.Session() as session:
        examples = tf.placeholder(tf.string, [None])
        probabilities = tf.sigmoid(model(tf.io.parse_example(examples, SPECS), moments, options))
        tf.train.Saver().restore(session, tf.train.latest_checkpoint(options.model_dir))
        tf.saved_model.simple_save(session, options.export, {"examples": examples}, {"probabilities": probabilities})


if __name__ == "__main__":
    main()
