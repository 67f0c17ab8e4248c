"""The DAG of all pipelines, from raw data to a pushed model; what differs is an argument."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from tensorflow_model_analysis.proto import config_pb2
from tfx.components import ExampleValidator, SchemaGen, Trainer
from tfx.dsl.components.base.base_node import BaseNode
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import pusher_pb2, trainer_pb2

from penstock.components.batches.statistics_gen import BatchStatisticsGen
from penstock.components.batches.transform import BatchTransform
from penstock.components.errors import UsageError
from penstock.components.evaluator.component import BatchEvaluator
from penstock.components.gates.curated_schema import CuratedSchema
from penstock.components.gates.gate import ValidationGate
from penstock.components.gates.kserve import KServePush
from penstock.components.gates.options import GateOptions
from penstock.components.gates.pusher import Pusher
from penstock.components.gates.serving_check import ServingCheck
from penstock.components.packing.component import Pack
from penstock.components.packing.options import PackOptions
from penstock.components.trainer.base_model import weights_digest
from penstock.pipelines.blocks.config import PipelineConfig
from penstock.pipelines.blocks.nodes import base_model, baseline, baseline_statistics, last_spans
from penstock.pipelines.config.code_digest import code_digest

_BLESSED = "blessed"


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
    run_options: Mapping[str, Any] | None = None,
) -> Pipeline:
    """Returns the whole pipeline. The comment above each node names its outputs.

    Args:
        name: Name of the pipeline in the metadata and on Kubeflow.
        config: Options of the pipeline.
        example_gen: Node that reads the data, with the output `examples`.
        labels: Raw features that must be in every row.
        preprocessing_fn: Dotted path of the function that Transform runs.
        run_fn: Dotted path of the function that the Trainer runs.
        eval_config: Metrics and thresholds of the Evaluator, from `eval_config`.
        left_out: Raw features that the model does not get; the gate does not check them for
            leakage.
        gates: Further nodes, before Transform, that stop the run if the data is unfit.
        packing: Options of packed training records; None trains from rows.
        materialize: Whether the Trainer reads transformed Examples; otherwise it reads raw ones, as
            for images.
        run_options: Entries of `custom_config` for `run_fn`, besides the config's options.
    """
    root = run_root(config)
    examples = example_gen.outputs["examples"]

    # ExampleStatistics of each split
    statistics_gen = BatchStatisticsGen(examples=examples).with_id("StatisticsGen")
    statistics = statistics_gen.outputs["statistics"]

    # Schema
    schema_gen = CuratedSchema(config.schema) if config.schema else SchemaGen(statistics=statistics)
    schema = schema_gen.outputs["schema"]

    # ExampleAnomalies of each split
    example_validator = ExampleValidator(statistics=statistics, schema=schema)

    # ExampleStatistics of the latest run that blessed a model
    before = [baseline_statistics(statistics)] if config.gate.max_drift < 1 else []

    # verdict: String; the gate stops the run if the data is unfit
    gate = ValidationGate(
        statistics=statistics,
        anomalies=example_validator.outputs["anomalies"],
        examples=examples,
        baseline=before[0].outputs["statistics"] if before else None,
        options=_gate_options(config, labels, left_out, is_table=materialize),
    )
    for other in gates:
        other.add_upstream_node(gate)

    # Examples of the spans to train on; nodes other than Transform, Pack and Trainer read the
    # newest span
    spans = [last_spans(example_gen, config.last_spans)] if config.last_spans > 1 else []
    span_examples = spans[0].outputs["examples"] if spans else examples

    # TransformGraph; Examples of the model's inputs and the label
    transform = BatchTransform(
        examples=span_examples,
        schema=schema,
        preprocessing_fn=preprocessing_fn,
        custom_config={"code": code_digest(preprocessing_fn)},
        materialize=materialize and packing is None,
    ).with_id("Transform")
    transform.add_upstream_nodes([gate, *gates])

    # Examples that the Trainer reads: transformed, raw, or packed from either
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

    # Model that gives the initial weights
    base = [base_model(training_examples)] if config.start_from == _BLESSED else []

    # Model; ModelRun with training.json, baseline.json and TensorBoard logs
    trainer = Trainer(
        run_fn=run_fn,
        examples=training_examples,
        base_model=base[0].outputs["model"] if base else None,
        transform_graph=transform.outputs["transform_graph"],
        schema=schema,
        train_args=trainer_pb2.TrainArgs(),
        eval_args=trainer_pb2.EvalArgs(),
        custom_config={
            **_training_options(config),
            **(run_options or {}),
            "pack": packing is not None,
            "code": code_digest(run_fn),
        },
    )
    model = trainer.outputs["model"]

    # Model, ModelBlessing: the latest blessed model of an earlier run
    blessed_before = baseline(model)

    # ModelEvaluation; ModelBlessing
    evaluator = BatchEvaluator(
        examples=examples,
        model=model,
        baseline_model=blessed_before.outputs["model"],
        eval_config=eval_config,
    ).with_id("Evaluator")

    # InfraBlessing with serving_check.json
    serving_check = ServingCheck(
        model=model,
        examples=examples,
        transform_graph=transform.outputs["transform_graph"],
        options=config.serving,
    )

    # PushedModel
    pusher = Pusher(
        model=model,
        model_blessing=evaluator.outputs["blessing"],
        infra_blessing=serving_check.outputs["blessing"],
        push_destination=pusher_pb2.PushDestination(
            filesystem=pusher_pb2.PushDestination.Filesystem(base_directory=f"{root}/serving_model")
        ),
    )
    # service: String; where the model is served by KServe
    kserve = [_kserve(config, pusher)] if config.kserve.name else []
    return Pipeline(
        pipeline_name=name,
        pipeline_root=_in_full(config.pipeline_root or f"{root}/pipeline"),
        components=[
            example_gen,
            statistics_gen,
            schema_gen,
            example_validator,
            *before,
            gate,
            *gates,
            *spans,
            transform,
            *pack,
            *base,
            trainer,
            blessed_before,
            evaluator,
            serving_check,
            pusher,
            *kserve,
        ],
        enable_cache=True,
        metadata_connection_config=sqlite_metadata_connection_config(f"{root}/metadata.sqlite"),
        beam_pipeline_args=config.engine.beam_args(),
    )


def _gate_options(
    config: PipelineConfig, labels: Sequence[str], left_out: Collection[str], *, is_table: bool
) -> GateOptions:
    limits = config.gate
    time = filter(None, [getattr(config, "time", None)])
    return replace(
        limits,
        labels=tuple(dict.fromkeys([*labels, *limits.labels])),
        leakage=limits.leakage if is_table else "off",
        left_out=tuple(dict.fromkeys([*left_out, *time, *limits.left_out])),
        group=limits.group or getattr(config, "group", None),
        # The ingest has a limit of its own; a lower one here would stop a run that the ingest let
        # pass.
        max_quarantined_share=max(
            limits.max_quarantined_share, config.ingest.max_quarantined_share
        ),
    )


def _kserve(config: PipelineConfig, pusher: BaseNode) -> BaseNode:
    options = replace(config.kserve, folder=config.kserve.folder or f"{run_root(config)}/kserve")
    if "://" not in options.folder and not options.storage:
        raise UsageError(
            "kserve.storage must say what KServe calls the folder of its models, as "
            "pvc://penstock/runs/taxi/kserve for /penstock/runs/taxi/kserve"
        )
    return KServePush(pushed=pusher.outputs["pushed_model"], options=options)


def run_root(config: PipelineConfig) -> str:
    """Returns the folder of the runs: an absolute path, or an address."""
    return _in_full(config.root)


def _in_full(place: str) -> str:
    return place if "://" in place else os.path.abspath(place)


def _training_options(config: PipelineConfig) -> dict[str, Any]:
    names = ("train", "input", "augment", "model")
    options: dict[str, Any] = {n: asdict(getattr(config, n)) for n in names if hasattr(config, n)}
    options["callbacks"] = config.callbacks
    options["must_beat"] = config.must_beat
    base = None if config.start_from == _BLESSED else config.start_from
    # With the digest, new weights at the same path are another training: no resume, no cache.
    digest = weights_digest(base) if base else ""
    return {**options, "start_from": base, "start_from_weights": digest}
