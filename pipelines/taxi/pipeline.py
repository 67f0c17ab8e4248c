"""The Chicago taxi pipeline: trips in CSV in, a pushed model that predicts big tips out."""

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
from tfx.proto import pusher_pb2, trainer_pb2
from tfx.types import Channel
from tfx.types.standard_artifacts import Model, ModelBlessing

from penstock import (
    BatchEvaluator,
    CuratedSchema,
    LatestOtherBlessedModelStrategy,
    Pack,
    Pusher,
    ShardedExampleGen,
    ValidationGate,
    code_digest,
    local_beam_args,
)
from penstock.pipelines.taxi import features
from penstock.pipelines.taxi.config import EvaluationOptions, TaxiConfig

PREPROCESSING_FN = "penstock.pipelines.taxi.preprocessing.preprocessing_fn"
RUN_FN = "penstock.pipelines.taxi.run_fn.run_fn"


def create_pipeline(config: TaxiConfig) -> Pipeline:
    """The whole pipeline; each node's outputs are in the line above it."""
    root = config.root if "://" in config.root else os.path.abspath(config.root)

    # Examples: Split-train, Split-eval, manifest.json
    example_gen = ShardedExampleGen(
        config.data,
        source=replace(config.source, schema_file=config.schema),
        ingest=config.ingest,
    )
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
        label=features.TIPS,
        max_quarantined_share=config.ingest.max_quarantined_share,
    )

    # TransformGraph; Examples of the model's inputs and the label
    transform = Transform(
        examples=examples,
        schema=schema,
        preprocessing_fn=PREPROCESSING_FN,
        custom_config={"code": code_digest(PREPROCESSING_FN)},
        # Statistics before and after would take 3 s more, a cache for the next span 0.5.
        disable_statistics=True,
        disable_analyzer_cache=True,
    )
    transform.add_upstream_node(gate)

    # Examples of the same, in packed records; for the Trainer alone
    training_examples = transform.outputs["transformed_examples"]
    packing = []
    if config.pack:
        packing = [
            Pack(
                training_examples,
                transform_graph=transform.outputs["transform_graph"],
                options=config.packing,
            )
        ]
        training_examples = packing[0].outputs["packed"]

    # Model; ModelRun with training.json and TensorBoard logs
    trainer = Trainer(
        run_fn=RUN_FN,
        examples=training_examples,
        transform_graph=transform.outputs["transform_graph"],
        schema=schema,
        train_args=trainer_pb2.TrainArgs(),
        eval_args=trainer_pb2.EvalArgs(),
        custom_config={
            "model": asdict(config.model),
            "input": asdict(config.input),
            "train": asdict(config.train),
            "pack": config.pack,
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
        pipeline_name="taxi",
        pipeline_root=f"{root}/pipeline",
        components=[
            example_gen,
            statistics_gen,
            schema_gen,
            example_validator,
            gate,
            transform,
            *packing,
            trainer,
            baseline,
            evaluator,
            pusher,
        ],
        enable_cache=True,
        metadata_connection_config=sqlite_metadata_connection_config(f"{root}/metadata.sqlite"),
        beam_pipeline_args=local_beam_args(),
    )


def eval_config(options: EvaluationOptions) -> tfma.EvalConfig:
    """Metrics overall, by hour and by payment; thresholds for all trips together."""
    accuracy = tfma.MetricThreshold(
        value_threshold=tfma.GenericValueThreshold(lower_bound={"value": options.min_accuracy}),
        change_threshold=tfma.GenericChangeThreshold(
            direction=tfma.MetricDirection.HIGHER_IS_BETTER,
            absolute={"value": -options.max_accuracy_drop},
        ),
    )
    auc = tfma.MetricThreshold(
        value_threshold=tfma.GenericValueThreshold(lower_bound={"value": options.min_auc})
    )
    return tfma.EvalConfig(
        model_specs=[
            tfma.ModelSpec(
                signature_name="serving_default",
                label_key=features.LABEL_XF,
                preprocessing_function_names=["transform_features"],
            )
        ],
        slicing_specs=[
            tfma.SlicingSpec(),
            tfma.SlicingSpec(feature_keys=["trip_start_hour"]),
            tfma.SlicingSpec(feature_keys=["payment_type"]),
        ],
        metrics_specs=[
            tfma.MetricsSpec(
                metrics=[
                    tfma.MetricConfig(class_name="ExampleCount"),
                    tfma.MetricConfig(
                        class_name="BinaryAccuracy", per_slice_thresholds=[_of_all(accuracy)]
                    ),
                    tfma.MetricConfig(class_name="AUC", per_slice_thresholds=[_of_all(auc)]),
                    tfma.MetricConfig(class_name="Precision"),
                    tfma.MetricConfig(class_name="Recall"),
                    tfma.MetricConfig(class_name="CalibrationPlot"),
                ]
            )
        ],
    )


def _of_all(threshold: tfma.MetricThreshold) -> config_pb2.PerSliceMetricThreshold:
    return config_pb2.PerSliceMetricThreshold(
        slicing_specs=[tfma.SlicingSpec()], threshold=threshold
    )
