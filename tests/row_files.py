"""Examples from Python values, shards in TFX's form, and TFX artifacts."""

import tensorflow as tf


def _fill(feature, values):
    if values is None:
        feature.SetInParent()
    elif values and isinstance(values[0], bytes):
        feature.bytes_list.value.extend(values)
    elif values and isinstance(values[0], float):
        feature.float_list.value.extend(values)
    else:
        feature.int64_list.value.extend(values)


def example(**features):
    """A serialized Example of lists of bytes, ints or floats; None makes an empty feature."""
    made = tf.train.Example()
    for name, values in features.items():
        _fill(made.features.feature[name], values)
    return made.SerializeToString(deterministic=True)


def sequence_example(context=None, **lists):
    """A serialized SequenceExample; each step of a list has the form of a feature of `example`."""
    made = tf.train.SequenceExample()
    for name, values in (context or {}).items():
        _fill(made.context.feature[name], values)
    for name, steps in lists.items():
        features = made.feature_lists.feature_list[name].feature
        for values in steps:
            _fill(features.add(), values)
    return made.SerializeToString(deterministic=True)


def write_shards(folder, records, *, shards=3, split="train"):
    """Writes the records as TFX does, with GZIP and without a manifest; returns the folder."""
    directory = folder / f"Split-{split}"
    directory.mkdir(parents=True)
    records = list(records)
    for shard in range(shards):
        path = directory / f"data-{shard:05d}-of-{shards:05d}.gz"
        with tf.io.TFRecordWriter(str(path), "GZIP") as out:
            for record in records[shard::shards]:
                out.write(record)
    return folder


def artifact(kind, path, at=7):
    """A TFX artifact at a path, with the id `at` as if from a metadata store."""
    made = kind()
    made.uri, made.id = str(path), at
    return made
