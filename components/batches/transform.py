"""TFX node: TFX's Transform with an executor that processes whole batches."""

from typing import Any

from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform import impl_helper
from tensorflow_transform.tf_metadata import schema_utils
from tfx import types
from tfx.components.transform import component, executor, executor_utils, labels
from tfx.components.util import examples_utils, tfxio_utils
from tfx.dsl.components.base import executor_spec
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils
from tfx.types import standard_component_specs as keys
from tfx.utils import io_utils

from penstock.components.batches.analysis import PreprocessingFn, analyze
from penstock.components.batches.fallback import Artifacts, InBatches, refuse
from penstock.components.batches.materialize import materialize
from penstock.components.batches.shards import run_shards, shard_tasks
from penstock.components.engine.pipeline import node_engine
from penstock.components.engine.processes import kept_processes
from penstock.components.tfrecord.manifest import MANIFEST_PROPERTY


class Executor(InBatches, executor.Executor):
    told_at = keys.TRANSFORM_GRAPH_KEY
    work = "transformed in batches but by TFT"

    @kept_processes()
    def in_batches(
        self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]
    ) -> None:
        _require_plain(input_dict, output_dict, exec_properties)
        self._log_startup(input_dict, output_dict, exec_properties)
        examples = input_dict[keys.EXAMPLES_KEY]
        config = executor_utils.ResolveSplitsConfig(
            exec_properties.get(keys.SPLITS_CONFIG_KEY), examples
        )
        graph = artifact_utils.get_single_uri(output_dict[keys.TRANSFORM_GRAPH_KEY])
        tasks = [
            task
            for artifact in examples
            for split in config.analyze
            for task in shard_tasks(artifact.uri, split)
        ]
        engine = node_engine(self._make_beam_pipeline)
        analyze(
            self._preprocessing_fn(exec_properties),
            _schema(input_dict),
            graph,
            lambda work: run_shards(work, tasks, engine=engine, output=graph),
        )
        if output_dict.get(keys.TRANSFORMED_EXAMPLES_KEY):
            executor_utils.MatchNumberOfTransformedExamplesArtifacts(input_dict, output_dict)
            made = output_dict[keys.TRANSFORMED_EXAMPLES_KEY]
            for raw, transformed in zip(examples, made, strict=True):
                splits = {split: shard_tasks(raw.uri, split) for split in sorted(config.transform)}
                manifest = materialize(graph, splits, transformed.uri, engine=engine)
                transformed.set_string_custom_property(MANIFEST_PROPERTY, manifest.sha256)
            executor_utils.SetSplitNames(config.transform, made)

    def _preprocessing_fn(self, exec_properties: dict[str, Any]) -> PreprocessingFn:
        names = {
            labels.MODULE_FILE: keys.MODULE_FILE_KEY,
            labels.MODULE_PATH: keys.MODULE_PATH_KEY,
            labels.PREPROCESSING_FN: keys.PREPROCESSING_FN_KEY,
            labels.CUSTOM_CONFIG: keys.CUSTOM_CONFIG_KEY,
        }
        inputs = {label: exec_properties.get(key) for label, key in names.items()}
        return self._GetPreprocessingFn(inputs, {})


class BatchTransform(component.Transform):
    """TFX's Transform with the same inputs and outputs, in a fraction of the time.

    The `preprocessing_fn` need not change. The TransformGraph is TFT's own: TFT's analyzers run on
    whole batches, one task per shard, and TFT writes the SavedModel. Vocabularies and schemas equal
    TFX's; sums of float32 differ by rounding. Transformed Examples have a manifest, and one shard
    per raw shard.

    TFT's own pipeline does all the work if there are analyzers per key (or histograms), a
    `ptransform_analyzer`, statistics, an analyzer cache, `force_tf_compat_v1`, `save_options`, or
    records that are not tf.train.Examples. It also does all the work for vocabularies that are
    weighted, shuffled, made by mutual information or per key, with reserved tokens, or not stored
    as text files. The log and the graph's property `not_in_batches` say why.

    Args:
        examples: Examples to analyze and transform.
        schema: Schema of the raw features.
        disable_statistics: TFX's option, but True by default, because statistics need TFT's own
            pipeline.
        disable_analyzer_cache: TFX's option, but True by default: a cache needs TFT's own pipeline,
            which takes more CPU time than a new analysis of all rows in batches.
        options: TFX's other options, such as `preprocessing_fn` and `materialize`.
    """

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(
        self, examples: types.BaseChannel, schema: types.BaseChannel, **options: Any
    ) -> None:
        defaults = {"disable_statistics": True, "disable_analyzer_cache": True}
        super().__init__(examples, schema, **{**defaults, **options})


def _schema(input_dict: Artifacts) -> schema_pb2.Schema:
    folder = artifact_utils.get_single_uri(input_dict[keys.SCHEMA_KEY])
    return io_utils.SchemaReader().read(io_utils.get_only_uri_in_dir(folder))


def _require_plain(
    input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]
) -> None:
    examples = input_dict[keys.EXAMPLES_KEY]
    payload, _ = tfxio_utils.resolve_payload_format_and_data_view_uri(examples)
    formats = {examples_utils.get_file_format(one) for one in examples}
    cache = input_dict.get(keys.ANALYZER_CACHE_KEY) or output_dict.get(
        keys.UPDATED_ANALYZER_CACHE_KEY
    )
    refuse(
        {
            "records that are no Examples": payload != example_gen_pb2.FORMAT_TF_EXAMPLE,
            "files that are no TFRecords": formats != {"tfrecords_gzip"},
            "statistics": not exec_properties.get(keys.DISABLE_STATISTICS_KEY, 0),
            "an analyzer cache": bool(cache),
            "force_tf_compat_v1": bool(exec_properties.get(keys.FORCE_TF_COMPAT_V1_KEY, 0)),
            "save_options": exec_properties.get(keys.SAVE_OPTIONS_KEY) is not None,
        }
    )
    # A preprocessing_fn must get the same tensors from TensorFlow's parser as it gets from TFX.
    schema = _schema(input_dict)
    spec = schema_utils.schema_as_feature_spec(schema).feature_spec
    ours = impl_helper.get_type_specs_from_feature_specs(spec)
    tfxio = tfxio_utils.make_tfxio("", ["Transform"], example_gen_pb2.FORMAT_TF_EXAMPLE, "", schema)
    alike = ours == tfxio.TensorAdapter().OriginalTypeSpecs()
    refuse({"the schema's tensor representations": not alike})
