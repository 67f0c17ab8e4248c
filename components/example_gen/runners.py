"""Beam pipelines on this machine, for those who bring no runner of their own."""

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions


def local_pipeline(workers: int) -> beam.Pipeline:
    """A pipeline on Beam's own local runner.

    Args:
        workers: Processes that work at the same time; 1 works in this process.
    """
    # Named, because Beam's DirectRunner first tries to download the Prism runner.
    options = PipelineOptions(
        flags=[],  # else Beam reads this process's own arguments
        runner="FnApiRunner",
        direct_running_mode="in_memory" if workers == 1 else "multi_processing",
        direct_num_workers=workers,
    )
    return beam.Pipeline(options=options)
