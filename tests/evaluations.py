"""Files of an evaluation in TFMA's formats, with hand-made metrics."""

import json

import tensorflow as tf
from tensorflow_model_analysis.proto import metrics_for_slice_pb2


def slice_metrics(values, model="", *, is_diff=False, **key):
    """A MetricsForSlice; `key` has a value for each column of the slice, or is empty."""
    message = metrics_for_slice_pb2.MetricsForSlice()
    for column, value in key.items():
        message.slice_key.single_slice_keys.add(column=column, bytes_value=value.encode())
    for name, value in values.items():
        entry = message.metric_keys_and_values.add()
        entry.key.name, entry.key.model_name, entry.key.is_diff = name, model, is_diff
        entry.value.double_value.value = value
    return message


def write_messages(path, messages):
    with tf.io.TFRecordWriter(str(path)) as file:
        for message in messages:
            file.write(message.SerializeToString())


def write_evaluation(folder, messages, thresholds=(), plots=()):
    """Writes a ModelEvaluation artifact; `thresholds` are (metric class, threshold) pairs."""
    folder.mkdir(parents=True, exist_ok=True)
    write_messages(folder / "metrics.tfrecord", messages)
    write_messages(folder / "plots.tfrecord", plots)
    metrics = [{"className": name, "threshold": threshold} for name, threshold in thresholds]
    models = [{"name": "candidate"}, {"name": "baseline", "isBaseline": True}]
    config = {"modelSpecs": models, "metricsSpecs": [{"metrics": metrics}]}
    config = {"version": "0.47.1", "evalConfig": config}
    (folder / "eval_config.json").write_text(json.dumps(config))
