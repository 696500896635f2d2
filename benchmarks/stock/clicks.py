"""The clicks of `afo data synth` as TensorFlow alone reads them: files to batches, batches to rows of two tables.

And the options that the programs have in common.
"""

import argparse
import itertools

import numpy as np
import tensorflow as tf

IDS = (
    "user_id", "item_id", "query_id", "advertiser_id", "site_id", "category", "city", "device", "hour", "position",
)  # fmt: skip
NUMBERS = ("user_age", "price", "item_ctr", "dwell_time", "similarity")
CROSSES = (("category", "position"), ("hour", "device"), ("device", "position"))
LABEL = "click"
SPECS = {
    **{name: tf.io.FixedLenFeature([], tf.int64) for name in IDS},
    **{name: tf.io.FixedLenFeature([], tf.float32) for name in NUMBERS},
}
SHUFFLE = 10_000
#: A prime: multiplied by it modulo the rows of a feature, ids move about and no two meet that did not before.
SPREAD = 2_654_435_761
#: The golden ratio of 64 bits, for the hash of a cross.
GOLDEN = -7_046_029_254_386_353_131


def dataset(files, *, batch_size, epochs, seed):
    """Features and labels of the records, once an epoch. Records are batched first, then parsed a batch at once."""
    names = tf.data.Dataset.from_tensor_slices(files).shuffle(1000, seed=seed).repeat(epochs)
    records = names.interleave(
        tf.data.TFRecordDataset, cycle_length=2, block_length=64, num_parallel_calls=tf.data.AUTOTUNE
    )
    batches = records.shuffle(SHUFFLE, seed=seed).batch(batch_size)
    return batches.map(parsed, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def parsed(examples):
    """Features and label of a batch of serialized samples."""
    features = tf.io.parse_example(examples, {**SPECS, LABEL: tf.io.FixedLenFeature([], tf.int64)})
    return features, tf.cast(features.pop(LABEL), tf.float32)


def numbers_of(features):
    """The numeric features, float32 [B, numbers]."""
    return tf.stack([features[name] for name in NUMBERS], axis=1)


def rows_of(features, buckets):
    """Rows of the deep table, [B, ids], and of the wide one, [B, ids + crosses]; a feature has `buckets` rows.

    Rows of all features take turns, so that each part of a table has its share of every feature.
    """
    ids = tf.stack([features[name] for name in IDS], axis=1)
    own = tf.math.floormod(ids * SPREAD, buckets)
    pairs = tf.stack([features[left] * GOLDEN + features[right] for left, right in CROSSES], axis=1)
    crossed = tf.math.floormod(mixed(pairs), buckets)
    deep, wide = len(IDS), len(IDS) + len(CROSSES)
    deep_rows = own * deep + tf.range(deep, dtype=tf.int64)
    return deep_rows, tf.concat([own, crossed], axis=1) * wide + tf.range(wide, dtype=tf.int64)


def mixed(values):
    """Hashes, int64: a product's high bits depend on all of a value's, and are brought down twice."""
    for _ in range(2):
        values *= GOLDEN
        values = tf.bitwise.bitwise_xor(values, tf.bitwise.right_shift(values, tf.constant(32, tf.int64)))
    return values


def mean_and_deviation(file):
    """Of the numeric features, [numbers] each, over the first records of a file."""
    records = itertools.islice(tf.compat.v1.io.tf_record_iterator(file), SHUFFLE)
    features = [tf.train.Example.FromString(record).features.feature for record in records]
    values = np.array([[each[name].float_list.value[0] for name in NUMBERS] for each in features], np.float32)
    return values.mean(axis=0), values.std(axis=0) + 1e-3


def arguments(description, optimizers):
    """Of a program that trains on these data; `optimizers`: names of those that it has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--train", required=True, help="glob of TFRecord files")
    parser.add_argument("--model-dir", required=True, help="directory of checkpoints that all tasks see")
    parser.add_argument("--export", required=True, help="directory of the SavedModel")
    parser.add_argument("--optimizer", choices=optimizers, default="adagrad")
    parser.add_argument("--precision", choices=("bfloat16", "float32"), default="float32")
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 128, 64])
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--buckets", type=int, default=100_000, help="rows a feature")
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()
