"""Wide & Deep with ParameterServerStrategy and a ClusterCoordinator: every task runs this with its TF_CONFIG.

The loop is its own, for `fit` of Keras 3 does not run under this strategy: layers of Keras, tables as sharded
variables, a dataset for each worker, calls of many steps that workers take from the coordinator's queue. The optimizers
are those of TensorFlow's first version, whose AdaGrad touches the rows of a batch alone; that of Keras 3 reads whole
tables in every step, and none of them takes a sharded variable.
"""

import json
import os
import time

import keras
import tensorflow as tf
from clicks import CROSSES, IDS, NUMBERS, SPECS, arguments, dataset, mean_and_deviation, numbers_of, rows_of
from lazy_adam import LazyAdam

STEPS_A_CALL = 20
OPTIMIZERS = {
    "adagrad": lambda: tf.compat.v1.train.AdagradOptimizer(0.05, initial_accumulator_value=0.1),
    "adam": lambda: tf.compat.v1.train.AdamOptimizer(0.001),
    "lazy_adam": lambda: LazyAdam(0.001),
}


class WideDeep(tf.Module):
    """A table of embeddings and one of linear weights, each cut into a part a server, and layers."""

    def __init__(self, options, moments):
        super().__init__()
        self.buckets, self.dim, self.moments = options.buckets, options.dim, moments
        first = tf.random_normal_initializer(stddev=0.05, seed=options.seed)
        self.deep = table("deep", (len(IDS) * options.buckets, options.dim), first)
        self.wide = table("wide", ((len(IDS) + len(CROSSES)) * options.buckets, 1), tf.zeros_initializer())
        keras.utils.set_random_seed(options.seed)
        policy = "mixed_bfloat16" if options.precision == "bfloat16" else "float32"
        layers = [keras.layers.Dense(units, "relu", dtype=policy) for units in options.hidden]
        self.layers = keras.Sequential([*layers, keras.layers.Dense(1, dtype=policy)])
        self.layers.build((None, len(IDS) * options.dim + len(NUMBERS)))

    def __call__(self, features):
        """Log odds [B]."""
        deep_rows, wide_rows = rows_of(features, self.buckets)
        mean, deviation = self.moments
        numbers = (numbers_of(features) - mean) / deviation
        embeddings = tf.reshape(looked_up(self.deep, deep_rows), [-1, len(IDS) * self.dim])
        hidden = self.layers(tf.concat([embeddings, numbers], axis=1))
        return tf.cast(hidden[:, 0], tf.float32) + tf.reduce_sum(looked_up(self.wide, wide_rows), axis=[1, 2])


def table(name, shape, initializer):
    def first(shape=shape, dtype=tf.float32, **part):
        return initializer(shape, dtype, **part)

    return tf.Variable(first, shape=shape, dtype=tf.float32, name=name)


def parts(table):
    """The variables of a table; a small one is not cut."""
    return getattr(table, "variables", [table])


def looked_up(table, rows):
    """[B, features, dim]; each different row is asked for once."""
    different, places = tf.unique(tf.reshape(rows, [-1]))
    return tf.reshape(tf.gather(tf.nn.embedding_lookup(table, different), places), [-1, rows.shape[1], table.shape[1]])


def main():
    options = arguments(__doc__, OPTIMIZERS)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    cluster, role = resolver.cluster_spec(), resolver.task_type
    if role in ("worker", "ps"):
        tf.distribute.Server(cluster, job_name=role, task_index=resolver.task_id, protocol="grpc").join()
    # Large tables are cut, layers are not.
    partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(1 << 20, cluster.num_tasks("ps"))
    strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
    files = sorted(tf.io.gfile.glob(options.train))
    moments = mean_and_deviation(files[0])
    with strategy.scope():
        model, optimizer = WideDeep(options, moments), OPTIMIZERS[options.optimizer]()
    _kept = train(strategy, model, optimizer, files, cluster.num_tasks("worker"), options)
    tf.train.Checkpoint(model=model, optimizer=optimizer).save(f"{options.model_dir}/model")
    export(model, moments, options)
    os._exit(0)  # an exit in order would drop the iterator first


def train(strategy, model, optimizer, files, workers, options):
    """Every worker its share of the files, until none has any more.

    Returns what must not be collected before all is done: a worker that drops an iterator waits for tf.data's next
    round of tuning, up to a minute, and whoever asks it or a server for something waits as well.
    """
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    batches = iter(coordinator.create_per_worker_dataset(per_worker_dataset(strategy, files, workers, options)))
    step = step_of(model, optimizer)

    @tf.function
    def steps(batches, count):
        samples = 0
        for _ in tf.range(count):
            batch = batches.get_next_as_optional()
            if not batch.has_value():
                break
            samples += strategy.run(step, args=batch.get_value())
        return samples

    def called(times, count):
        calls = [coordinator.schedule(steps, args=(batches, tf.constant(count))) for _ in range(times)]
        coordinator.join()
        return sum(int(each) for each in coordinator.fetch(calls))

    called(workers, 1)
    began, samples = time.monotonic(), 0
    while made := called(4 * workers, STEPS_A_CALL):
        samples += made
    print(json.dumps({"samples": samples, "train_seconds": time.monotonic() - began}), flush=True)
    return coordinator, batches


def step_of(model, optimizer):
    """A function that makes a step with a batch, and returns its size."""
    tables = [*parts(model.deep), *parts(model.wide)]
    layers = [each.value for each in model.layers.trainable_variables]

    def step(features, label):
        with tf.GradientTape() as tape:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=model(features))
            loss = tf.reduce_sum(losses)
        # The sum over the batch for tables, where a row is in few of its samples, and the mean for layers.
        of_tables, of_layers = tape.gradient(loss, [tables, layers])
        of_layers = [each / tf.cast(tf.size(label), tf.float32) for each in of_layers]
        optimizer.apply_gradients(zip([*of_tables, *of_layers], [*tables, *layers], strict=True))
        return tf.size(label)

    return step


def per_worker_dataset(strategy, files, workers, options):
    """A function that makes the dataset of the worker that runs it."""

    def share(_):
        own = tf.constant(files)[tf.distribute.coordinator.experimental_get_current_worker_index() :: workers]
        return dataset(own, batch_size=options.batch_size, epochs=options.epochs, seed=options.seed)

    @tf.function
    def distributed():
        return strategy.distribute_datasets_from_function(share)

    return distributed


def export(model, moments, options):
    """A SavedModel of the whole model, on this machine, from serialized samples to probabilities."""
    local = WideDeep(options, moments)
    local.deep.assign(tf.concat(parts(model.deep), axis=0))
    local.wide.assign(tf.concat(parts(model.wide), axis=0))
    local.layers.set_weights(model.layers.get_weights())

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(examples):
        return {"probabilities": tf.sigmoid(local(tf.io.parse_example(examples, SPECS)))}

    tf.saved_model.save(local, options.export, signatures=serve)


if __name__ == "__main__":
    main()
