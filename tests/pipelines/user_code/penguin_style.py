"""A pipeline of only TFX's own nodes, like its penguin example, without any part of Penstock."""

import keras
import tensorflow as tf
import tensorflow_model_analysis as tfma
from tfx.components import (
    CsvExampleGen,
    Evaluator,
    ExampleValidator,
    Pusher,
    SchemaGen,
    StatisticsGen,
    Trainer,
)
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import pusher_pb2, trainer_pb2

FEATURES = ("culmen_length_mm", "culmen_depth_mm", "flipper_length_mm", "body_mass_g")
LABEL = "species"
BEAM = [
    "--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner",
    "--direct_running_mode=in_memory",
    "--sdk_container_image=none",
]


def run_fn(fn_args):
    """The function that the Trainer runs."""
    spec = {name: tf.io.FixedLenFeature([1], tf.float32) for name in FEATURES}
    labelled = {**spec, LABEL: tf.io.FixedLenFeature([1], tf.int64)}

    def split(features):
        label = features.pop(LABEL)
        return tf.concat([features[name] for name in FEATURES], 1), label

    files = tf.data.Dataset.list_files(fn_args.train_files)
    records = tf.data.TFRecordDataset(files, compression_type="GZIP").batch(32)
    data = records.map(lambda batch: split(tf.io.parse_example(batch, labelled)))
    scale = keras.layers.Normalization()
    scale.adapt(data.map(lambda x, _: x))
    out = keras.layers.Dense(3, activation="softmax")
    model = keras.Sequential([keras.Input((4,)), scale, out])
    model.compile(keras.optimizers.Adam(0.05), loss="sparse_categorical_crossentropy")
    model.fit(data, epochs=5, verbose=0)

    module = tf.Module()
    module.model = model

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def serve(examples):
        features = tf.io.parse_example(examples, spec)
        return {"outputs": model(tf.concat([features[name] for name in FEATURES], 1))}

    tf.saved_model.save(module, fn_args.serving_model_dir, {"serving_default": serve})


def make_pipeline(root, data):
    """Makes the pipeline, which reads the CSV files of a folder."""
    examples = CsvExampleGen(input_base=data).with_beam_pipeline_args(BEAM)
    statistics = StatisticsGen(examples=examples.outputs["examples"]).with_beam_pipeline_args(BEAM)
    schema = SchemaGen(statistics=statistics.outputs["statistics"])
    validator = ExampleValidator(
        statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"]
    )
    trainer = Trainer(
        run_fn="penguin_style.run_fn",
        examples=examples.outputs["examples"],
        train_args=trainer_pb2.TrainArgs(num_steps=10),
        eval_args=trainer_pb2.EvalArgs(num_steps=1),
    )
    threshold = tfma.MetricThreshold(
        value_threshold=tfma.GenericValueThreshold(lower_bound={"value": 0.6})
    )
    accuracy = tfma.MetricConfig(class_name="SparseCategoricalAccuracy", threshold=threshold)
    metrics = [
        tfma.MetricConfig(class_name="ExampleCount"),
        accuracy,
        tfma.MetricConfig(class_name="MultiClassConfusionMatrixPlot"),
    ]
    evaluator = Evaluator(
        examples=examples.outputs["examples"],
        model=trainer.outputs["model"],
        eval_config=tfma.EvalConfig(
            model_specs=[tfma.ModelSpec(signature_name="serving_default", label_key=LABEL)],
            slicing_specs=[tfma.SlicingSpec(), tfma.SlicingSpec(feature_keys=[LABEL])],
            metrics_specs=[tfma.MetricsSpec(metrics=metrics)],
        ),
    ).with_beam_pipeline_args(BEAM)
    pusher = Pusher(
        model=trainer.outputs["model"],
        model_blessing=evaluator.outputs["blessing"],
        push_destination=pusher_pb2.PushDestination(
            filesystem=pusher_pb2.PushDestination.Filesystem(base_directory=f"{root}/serving")
        ),
    )
    return Pipeline(
        pipeline_name="penguin",
        pipeline_root=f"{root}/pipeline",
        components=[examples, statistics, schema, validator, trainer, evaluator, pusher],
        metadata_connection_config=sqlite_metadata_connection_config(f"{root}/metadata.db"),
    )
