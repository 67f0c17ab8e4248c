"""Beam on this machine, for pipelines and ingests that bring no runner of their own."""

import shlex
import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from penstock.components import beam_workers  # noqa: F401 - a killed worker ends the work

# Beam's own, but Ctrl-C is left to the process that started it: a worker would print a traceback.
# What Google's clients warn of at every import is of no use to a person either.
_WORKER_COMMAND = (
    f"trap '' INT; exec {shlex.quote(sys.executable)} -W ignore::FutureWarning "
    "-m apache_beam.runners.worker.sdk_worker_main"
)


def local_beam_args(workers: int = 1) -> list[str]:
    """What Beam is told.

    Args:
        workers: Processes that work at the same time; 1 works in this process, which for
            small data beats the start of others by far (84 s against 280 s for TFX's
            penguin example).
    """
    mode = "in_memory" if workers == 1 else "multi_processing"
    return [
        # Named, because Beam's DirectRunner first tries to download the Prism runner.
        "--runner=FnApiRunner",
        f"--direct_running_mode={mode}",
        f"--direct_num_workers={workers}",
        # Not used by this runner; without it TFX builds a source distribution of itself in
        # each Beam node (2-4 s).
        "--sdk_container_image=unused",
    ]


def local_pipeline(workers: int = 1) -> beam.Pipeline:
    """A pipeline on Beam's own local runner."""
    options = PipelineOptions(flags=local_beam_args(workers))
    if workers == 1:
        return beam.Pipeline(options=options)
    # Else the runner puts a command of its own in place of ours.
    options.view_as(DirectOptions).direct_running_mode = None
    environment = SubprocessSDKEnvironment.from_command_string(_WORKER_COMMAND)
    return beam.Pipeline(FnApiRunner(default_environment=environment), options=options)
