"""The DAG that all pipelines share, from raw data to a pushed model; arguments adapt it."""

import os
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from tensorflow_model_analysis.proto import config_pb2
from tfx.components import ExampleValidator, SchemaGen, Trainer, Tuner
from tfx.dsl.components.base.base_node import BaseNode
from tfx.dsl.experimental.conditionals.conditional import Cond
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import pusher_pb2, trainer_pb2

from penstock.components.batches.statistics_gen import BatchStatisticsGen
from penstock.components.batches.transform import BatchTransform
from penstock.components.errors import UsageError
from penstock.components.evaluator.component import BatchEvaluator
from penstock.components.evaluator.register import Register
from penstock.components.example_gen.spans import has_span
from penstock.components.gates.curated_schema import CuratedSchema
from penstock.components.gates.gate import ValidationGate
from penstock.components.gates.kserve import KServePush
from penstock.components.gates.options import GateOptions, RetrainOptions
from penstock.components.gates.pusher import Pusher
from penstock.components.gates.retrain_gate import DAY_SECONDS, YES, RetrainGate
from penstock.components.gates.serving_check import ServingCheck
from penstock.components.packing.component import Pack
from penstock.components.packing.options import PackOptions
from penstock.pipelines.blocks.config import ImageConfig, PipelineConfig, in_full
from penstock.pipelines.blocks.resolvers import (
    base_model,
    blessed_statistics,
    last_spans,
    latest_blessed,
)
from penstock.pipelines.blocks.training_options import BLESSED, training_options
from penstock.pipelines.config.code_digest import code_digest


def training_pipeline(
    name: str,
    config: PipelineConfig,
    *,
    example_gen: BaseNode,
    labels: Sequence[str],
    preprocessing_fn: str,
    run_fn: str,
    eval_config: config_pb2.EvalConfig,
    left_out: Collection[str] = (),
    gates: Sequence[BaseNode] = (),
    packing: PackOptions | None = None,
    materialize: bool = True,
) -> Pipeline:
    """Returns the whole pipeline. The comment above each node names its outputs.

    Args:
        name: Name of the pipeline in the metadata and on Kubeflow.
        config: Options of the pipeline.
        example_gen: Node that reads the data, with the output `examples`.
        labels: Raw features that must be in every row.
        preprocessing_fn: Dotted path of the function that Transform runs.
        run_fn: Dotted path of the function that the Trainer runs.
        eval_config: Metrics and thresholds of the Evaluator, made by
            `penstock.recipes.eval_config`.
        left_out: Raw features that the model does not get; the gate does not check them for
            leakage.
        gates: Nodes between the ValidationGate and Transform that also stop the run if the data is
            unfit.
        packing: Options of packed training records; None trains from rows.
        materialize: Whether Transform, or Pack if there is one, applies the transform graph to the
            training rows; otherwise the Trainer reads raw features, as for images.
    """
    examples = example_gen.outputs["examples"]

    # Output: ExampleStatistics of each split
    statistics_gen = BatchStatisticsGen(examples=examples).with_id("StatisticsGen")
    statistics = statistics_gen.outputs["statistics"]

    # Output: Schema
    schema_gen = CuratedSchema(config.schema) if config.schema else SchemaGen(statistics=statistics)
    schema = schema_gen.outputs["schema"]

    # Output: ExampleAnomalies of each split
    example_validator = ExampleValidator(statistics=statistics, schema=schema)

    # Output: ExampleStatistics of the latest run that blessed a model
    is_compared = config.gate.max_drift < 1 or config.retrain.is_set
    before = [blessed_statistics(statistics)] if is_compared else []

    # Output: `verdict`, a String artifact. The gate stops the run if the data is unfit
    gate = ValidationGate(
        statistics=statistics,
        anomalies=example_validator.outputs["anomalies"],
        examples=examples,
        baseline=before[0].outputs["statistics"] if before else None,
        options=gate_options(config, labels, left_out=left_out),
    )
    for other in gates:
        other.add_upstream_node(gate)

    # RetrainGate has two outputs, the String artifacts `retrain` (yes or no) and `verdict`. If
    # `retrain` is no, all nodes from Transform on are skipped.
    retrain = []
    condition: AbstractContextManager[object] = nullcontext()
    if config.retrain.is_set:
        options = _retrain_options(config, labels, left_out)
        baseline = before[0].outputs["statistics"]
        retrain = [RetrainGate(statistics=statistics, baseline=baseline, options=options)]
        retrain[0].add_upstream_nodes([gate, *gates])
        condition = Cond(retrain[0].outputs["retrain"].future()[0].value == YES)

    # Output: Examples of the spans to train on, for Transform, Pack, Tuner and Trainer; other nodes
    # read only the span of this run
    span = getattr(config, "span", -1)
    spans = [last_spans(example_gen, config.last_spans, span)] if config.last_spans > 1 else []
    span_examples = spans[0].outputs["examples"] if spans else examples

    with condition:
        # Outputs: TransformGraph; with `materialize` and without Pack also transformed Examples
        transform = BatchTransform(
            examples=span_examples,
            schema=schema,
            preprocessing_fn=preprocessing_fn,
            custom_config={"code": code_digest(preprocessing_fn)},
            materialize=materialize and packing is None,
        ).with_id("Transform")
        transform.add_upstream_nodes([gate, *gates])

        # Output: packed Examples. Without Pack, the Trainer reads transformed or raw Examples
        training_examples = span_examples
        pack = []
        if packing is not None:
            graph = transform.outputs["transform_graph"]
            pack = [
                Pack(span_examples, transform_graph=graph, apply_graph=materialize, options=packing)
            ]
            training_examples = pack[0].outputs["packed"]
        elif materialize:
            training_examples = transform.outputs["transformed_examples"]

        # Output: Model that gives the initial weights
        base = [base_model(training_examples)] if config.start_from == BLESSED else []

        inputs = {
            "examples": training_examples,
            "base_model": base[0].outputs["model"] if base else None,
            "transform_graph": transform.outputs["transform_graph"],
            "schema": schema,
            "custom_config": training_options(config, run_fn, packed=packing is not None),
        }
        # Outputs: HyperParameters of the best trial; TunerResults of all trials
        tuner = (
            [Tuner(tuner_fn="penstock.training.tuner_fn", **inputs)] if config.tune.trials else []
        )

        # Outputs: Model; ModelRun with training.json, rivals.json and TensorBoard logs
        trainer = Trainer(
            run_fn=run_fn,
            hyperparameters=tuner[0].outputs["best_hyperparameters"] if tuner else None,
            train_args=trainer_pb2.TrainArgs(),
            eval_args=trainer_pb2.EvalArgs(),
            **inputs,
        )
        model = trainer.outputs["model"]

        # Outputs: Model and ModelBlessing of the latest blessed model of an earlier run
        blessed_before = latest_blessed(model)

        # Outputs: ModelEvaluation; ModelBlessing
        evaluator = BatchEvaluator(
            examples=examples,
            model=model,
            baseline_model=blessed_before.outputs["model"],
            eval_config=eval_config,
        ).with_id("Evaluator")

        # Output: InfraBlessing with serving_check.json
        serving_check = ServingCheck(
            model=model,
            examples=examples,
            transform_graph=transform.outputs["transform_graph"],
            options=config.serving,
        )

        # Output: PushedModel
        pusher = Pusher(
            model=model,
            model_blessing=evaluator.outputs["blessing"],
            infra_blessing=serving_check.outputs["blessing"],
            push_destination=push_destination(config),
        )
        # Output: `service`, a String artifact: the KServe service's manifest as JSON
        kserve = [_kserve(config, pusher)] if config.kserve.name else []

        # Output: `registered`, a String artifact: the model's version in MLflow's registry
        registered = []
        if config.register.name:
            registered = [
                Register(
                    pushed=pusher.outputs["pushed_model"],
                    evaluation=evaluator.outputs["evaluation"],
                    examples=examples,
                    options=replace(
                        config.register,
                        report=config.register.report or f"{config.folder}/report.html",
                        code=code_digest(run_fn),
                    ),
                )
            ]
    nodes = [
        example_gen,
        statistics_gen,
        schema_gen,
        example_validator,
        *before,
        gate,
        *gates,
        *retrain,
        *spans,
        transform,
        *pack,
        *base,
        *tuner,
        trainer,
        blessed_before,
        evaluator,
        serving_check,
        pusher,
        *kserve,
        *registered,
    ]
    return pipeline_of(name, config, nodes)


def _retrain_options(
    config: PipelineConfig, labels: Sequence[str], left_out: Collection[str]
) -> RetrainOptions:
    limits = config.retrain
    return replace(
        limits,
        labels=_each(labels, limits.labels),
        ignored=_each(left_out, [getattr(config, "time", None)], limits.ignored),
        by_span=has_span(getattr(config, "data", "")),
        today=int(time.time() // DAY_SECONDS) if limits.age_days else 0,
    )


def _each(*names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for some in names for name in some if name))


def pipeline_of(name: str, config: PipelineConfig, nodes: Sequence[BaseNode]) -> Pipeline:
    """Returns a pipeline with metadata and, by default, artifacts below `config.root`.

    Args:
        name: Name of the pipeline in the metadata and on Kubeflow.
        config: Options of the pipeline.
        nodes: All nodes.

    Raises:
        UsageError: An option is set, but its node is missing, so the option would have no effect.
    """
    recipe, ids = "recipes.resolvers", {node.id for node in nodes}
    drift = config.gate.max_drift < 1
    needed = (
        (bool(config.kserve.name), "kserve.name", "KServePush", "nodes.KServePush"),
        (config.last_spans > 1, "last_spans", "Spans", f"{recipe}.last_spans"),
        (config.start_from == BLESSED, "start_from", "BaseModel", f"{recipe}.base_model"),
        (drift, "gate.max_drift", "BaselineStatistics", f"{recipe}.blessed_statistics"),
        (bool(config.register.name), "register.name", "Register", "nodes.Register"),
        (config.retrain.is_set, "retrain", "RetrainGate", "nodes.RetrainGate"),
        (getattr(config, "pack", False), "pack", "Pack", "nodes.Pack"),
        (config.tune.trials > 0, "tune.trials", "Tuner", "training.tuner_fn"),
    )
    for is_set, option, node, source in needed:
        if is_set and node not in ids:
            raise UsageError(
                f"{option}: pipeline {name!r} has no node {node}; add penstock.{source} in "
                "create_pipeline, or leave the option out"
            )
    os.environ.update(config.lineage.variables)
    return Pipeline(
        pipeline_name=name,
        pipeline_root=in_full(config.pipeline_root or f"{config.folder}/pipeline"),
        components=list(nodes),
        enable_cache=True,
        metadata_connection_config=sqlite_metadata_connection_config(
            f"{config.folder}/metadata.sqlite"
        ),
        beam_pipeline_args=config.engine.beam_args(),
    )


def push_destination(config: PipelineConfig) -> pusher_pb2.PushDestination:
    """Returns the folder `serving_model` below `config.root`, for the Pusher."""
    folder = f"{config.folder}/serving_model"
    return pusher_pb2.PushDestination(
        filesystem=pusher_pb2.PushDestination.Filesystem(base_directory=folder)
    )


def gate_options(
    config: PipelineConfig, labels: Sequence[str], *, left_out: Collection[str] = ()
) -> GateOptions:
    """Returns `config.gate` with values of the pipeline, such as labels and left-out columns.

    Args:
        config: Options of the pipeline.
        labels: Raw features that must be in every row.
        left_out: Raw features that the model does not get.
    """
    limits = config.gate
    return replace(
        limits,
        labels=_each(labels, limits.labels),
        leakage="off" if isinstance(config, ImageConfig) else limits.leakage,
        left_out=_each(left_out, [getattr(config, "time", None)], limits.left_out),
        group=limits.group or getattr(config, "group", None),
        # A limit of the gate below that of the ingest would stop runs that the ingest let pass.
        max_quarantined_share=max(
            limits.max_quarantined_share, config.ingest.max_quarantined_share
        ),
    )


def _kserve(config: PipelineConfig, pusher: BaseNode) -> BaseNode:
    options = replace(config.kserve, folder=config.kserve.folder or f"{config.folder}/kserve")
    if "://" not in options.folder and not options.storage:
        raise UsageError(
            "kserve.storage must say what KServe calls the folder of its models, as "
            "pvc://penstock/runs/taxi/kserve for /penstock/runs/taxi/kserve"
        )
    return KServePush(pushed=pusher.outputs["pushed_model"], options=options)
