"""The executor of `ShardedExampleGen`: from an execution's properties to an ingest."""

import logging
from multiprocessing import cpu_count
from typing import Any

from apache_beam.options.pipeline_options import DirectOptions
from tfx import types
from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_beam_executor
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils, standard_component_specs

from penstock.components.example_gen.ingest import ingest, plan_job
from penstock.components.example_gen.node_options import NodeOptions, node_inputs
from penstock.components.example_gen.stage import LOCAL_RUNNERS, spread_by
from penstock.components.example_gen.write_shards import Job
from penstock.components.files.spool import remove_copies
from penstock.components.sources.open import open_source
from penstock.components.sources.spread import Spread, here, processes
from penstock.components.tfrecord.manifest import MANIFEST_PROPERTY


class Executor(base_beam_executor.BaseBeamExecutor):
    """Ingests into the `examples` artifact."""

    def Do(  # noqa: N802, TFX's name
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Write the shards of all splits and their manifest.

        Raises:
            DataError: The data is bad; the artifact's folder stays empty.
        """
        del input_dict
        options = NodeOptions.from_properties(exec_properties).ingest
        examples = artifact_utils.get_single_instance(
            output_dict[standard_component_specs.EXAMPLES_KEY]
        )
        jobs: list[Job] = []
        spread = self._spread(examples.uri)
        try:
            for part in node_inputs(exec_properties):
                source = open_source(part.pattern, part.source, spread)
                jobs.append(plan_job(source, part.splits, options))
                logging.info("Shards of %s: %s", part.pattern, jobs[-1].plan.reason)
            manifest = ingest(jobs, examples.uri, options, self._make_beam_pipeline)
        finally:
            remove_copies()  # this process may go on to train for days
        examples.split_names = artifact_utils.encode_split_names(list(manifest.splits))
        examples.set_string_custom_property(MANIFEST_PROPERTY, manifest.sha256)
        has_sequences = any(job.source.has_sequences for job in jobs)
        examples_utils.set_payload_format(
            examples,
            example_gen_pb2.FORMAT_TF_SEQUENCE_EXAMPLE
            if has_sequences
            else example_gen_pb2.FORMAT_TF_EXAMPLE,
        )

    def _spread(self, output: str) -> Spread:
        pipeline = self._make_beam_pipeline()
        if isinstance(pipeline.runner, LOCAL_RUNNERS):
            options = pipeline.options.view_as(DirectOptions)
            if options.direct_running_mode == "in_memory":  # as Beam, whatever their number
                return here
            return processes(options.direct_num_workers or cpu_count())  # 0: all, as Beam
        return spread_by(self._make_beam_pipeline, output)
