"""The image pipeline: image files and their labels in, a pushed classifier of images out."""

import json
import os
from dataclasses import asdict, replace

import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import config_pb2
from tfx.components import (
    ExampleValidator,
    SchemaGen,
    StatisticsGen,
    Trainer,
    Transform,
)
from tfx.dsl.components.common.resolver import Resolver
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import example_gen_pb2, pusher_pb2, trainer_pb2
from tfx.types import Channel
from tfx.types.standard_artifacts import Model, ModelBlessing

from penstock import (
    BatchEvaluator,
    CuratedSchema,
    ImageGate,
    LatestOtherBlessedModelStrategy,
    Pusher,
    ShardedExampleGen,
    ValidationGate,
    check_application,
    code_digest,
    image_features,
    local_beam_args,
)
from penstock.pipelines.digits import data, features
from penstock.pipelines.digits.config import DigitsConfig, EvaluationOptions
from penstock.pipelines.digits.example_gen import DigitsExampleGen

PREPROCESSING_FN = "penstock.pipelines.digits.preprocessing.preprocessing_fn"
RUN_FN = "penstock.pipelines.digits.run_fn.run_fn"


def create_pipeline(config: DigitsConfig) -> Pipeline:
    """The whole pipeline; each node's outputs are in the line above it."""
    root = config.root if "://" in config.root else os.path.abspath(config.root)
    if config.model.application:
        check_application(config.model.application)

    # Examples: Split-train, Split-eval, manifest.json
    example_gen = _example_gen(config, root)
    examples = example_gen.outputs["examples"]

    # ExampleStatistics of each split
    statistics_gen = StatisticsGen(examples=examples)
    statistics = statistics_gen.outputs["statistics"]

    # Schema
    schema_gen = CuratedSchema(config.schema) if config.schema else SchemaGen(statistics=statistics)
    schema = schema_gen.outputs["schema"]

    # ExampleAnomalies of each split
    example_validator = ExampleValidator(statistics=statistics, schema=schema)

    # verdict: String; stops the run where the data is unfit
    gate = ValidationGate(
        statistics=statistics,
        anomalies=example_validator.outputs["anomalies"],
        examples=examples,
        label=image_features.LABEL,
        max_quarantined_share=config.ingest.max_quarantined_share,
    )

    # verdict: String; stops the run where the images are
    image_gate = ImageGate(examples=examples, rules=json.dumps(asdict(config.checks)))
    image_gate.add_upstream_node(gate)

    # TransformGraph; images go to the Trainer as they are, not as a copy of all of them
    transform = Transform(
        examples=examples,
        schema=schema,
        preprocessing_fn=PREPROCESSING_FN,
        custom_config={"code": code_digest(PREPROCESSING_FN)},
        materialize=False,
        disable_statistics=True,
        disable_analyzer_cache=True,
    )
    transform.add_upstream_node(image_gate)

    # Model; ModelRun with training.json and TensorBoard logs
    trainer = Trainer(
        run_fn=RUN_FN,
        examples=examples,
        transform_graph=transform.outputs["transform_graph"],
        schema=schema,
        train_args=trainer_pb2.TrainArgs(),
        eval_args=trainer_pb2.EvalArgs(),
        custom_config={
            "model": asdict(config.model),
            "input": asdict(config.input),
            "augment": asdict(config.augment),
            "train": asdict(config.train),
            "track": asdict(config.track),
            "code": code_digest(RUN_FN),
        },
    )
    model = trainer.outputs["model"]

    # Model, ModelBlessing: the latest blessed that is not this run's
    baseline = Resolver(
        strategy_class=LatestOtherBlessedModelStrategy,
        model=Channel(type=Model),
        model_blessing=Channel(type=ModelBlessing),
        candidate=model,
    ).with_id("Baseline")

    # ModelEvaluation; ModelBlessing
    evaluator = BatchEvaluator(
        examples=examples,
        model=model,
        baseline_model=baseline.outputs["model"],
        eval_config=eval_config(config.evaluation),
    ).with_id("Evaluator")

    # PushedModel
    pusher = Pusher(
        model=model,
        model_blessing=evaluator.outputs["blessing"],
        push_destination=pusher_pb2.PushDestination(
            filesystem=pusher_pb2.PushDestination.Filesystem(base_directory=f"{root}/serving_model")
        ),
    )
    return Pipeline(
        pipeline_name="digits",
        pipeline_root=f"{root}/pipeline",
        components=[
            example_gen,
            statistics_gen,
            schema_gen,
            example_validator,
            gate,
            image_gate,
            transform,
            trainer,
            baseline,
            evaluator,
            pusher,
        ],
        enable_cache=True,
        metadata_connection_config=sqlite_metadata_connection_config(f"{root}/metadata.sqlite"),
        beam_pipeline_args=local_beam_args(),
    )


def _example_gen(config: DigitsConfig, root: str) -> ShardedExampleGen:
    """Equal images share their split, so that evaluation sees none that was trained on."""
    split_config = example_gen_pb2.SplitConfig(
        splits=[
            example_gen_pb2.SplitConfig.Split(name="train", hash_buckets=2),
            example_gen_pb2.SplitConfig.Split(name="eval", hash_buckets=1),
        ],
        partition_feature_name=image_features.ENCODED,
    )
    output = example_gen_pb2.Output(split_config=split_config)
    if config.data is not None:
        return ShardedExampleGen(
            config.data, output_config=output, source=config.source, ingest=config.ingest
        )
    return DigitsExampleGen(
        f"{root}/data/{data.IMAGES}",
        output_config=output,
        source=replace(config.source, labels_file=f"{root}/data/{data.LABELS}"),
        ingest=config.ingest,
    )


def eval_config(options: EvaluationOptions) -> tfma.EvalConfig:
    """Metrics overall and by class; thresholds for all images together and for each class."""
    overall = tfma.MetricThreshold(
        value_threshold=tfma.GenericValueThreshold(lower_bound={"value": options.min_accuracy}),
        change_threshold=tfma.GenericChangeThreshold(
            direction=tfma.MetricDirection.HIGHER_IS_BETTER,
            absolute={"value": -options.max_accuracy_drop},
        ),
    )
    each_class = tfma.MetricThreshold(
        value_threshold=tfma.GenericValueThreshold(
            lower_bound={"value": options.min_class_accuracy}
        )
    )
    by_class = tfma.SlicingSpec(feature_keys=[image_features.TEXT])
    return tfma.EvalConfig(
        model_specs=[
            tfma.ModelSpec(
                signature_name="serving_default",
                label_key=features.LABEL_XF,
                preprocessing_function_names=["transform_features"],
            )
        ],
        slicing_specs=[tfma.SlicingSpec(), by_class],
        metrics_specs=[
            tfma.MetricsSpec(
                metrics=[
                    tfma.MetricConfig(class_name="ExampleCount"),
                    tfma.MetricConfig(
                        class_name="SparseCategoricalAccuracy",
                        per_slice_thresholds=[
                            _of(tfma.SlicingSpec(), overall),
                            _of(by_class, each_class),
                        ],
                    ),
                    tfma.MetricConfig(class_name="SparseCategoricalCrossentropy"),
                    tfma.MetricConfig(class_name="MultiClassConfusionMatrixPlot"),
                ]
            )
        ],
    )


def _of(
    where: tfma.SlicingSpec, threshold: tfma.MetricThreshold
) -> config_pb2.PerSliceMetricThreshold:
    return config_pb2.PerSliceMetricThreshold(slicing_specs=[where], threshold=threshold)
