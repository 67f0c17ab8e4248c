"""Options of an engine: for an ingest, a packing, or all Beam nodes of a pipeline."""

import io
from contextlib import redirect_stderr
from dataclasses import dataclass
from typing import Literal, get_args

from penstock.components.errors import UsageError
from penstock.components.limits import check_choices, check_numbers

Runner = Literal["local", "flink", "portable", "dataflow"]
# For each runner: the field with the engine's address, named like Beam's option for it.
_ADDRESSES = {"flink": "flink_master", "portable": "job_endpoint"}
_RUNNERS = {"flink": "FlinkRunner", "portable": "PortableRunner", "dataflow": "DataflowRunner"}
_DATAFLOW_NEEDS = ("project", "region", "temp_location", "sdk_container_image")
# Options of Beam that `dataflow` accepts: they determine where, as whom and on which machines a job
# runs.
DATAFLOW_OPTIONS = (
    *_DATAFLOW_NEEDS,
    *("staging_location", "job_name", "labels", "experiments", "dataflow_service_options"),
    *("service_account_email", "impersonate_service_account", "dataflow_kms_key"),
    "dataflow_endpoint",
    *("machine_type", "num_workers", "max_num_workers", "autoscaling_algorithm", "flexrs_goal"),
    *("disk_size_gb", "disk_type", "min_cpu_platform", "worker_region", "worker_zone"),
    *("network", "subnetwork", "no_use_public_ips", "number_of_worker_harness_threads"),
)


@dataclass(frozen=True)
class EngineOptions:
    """An engine that runs tasks; its workers must see input and output under the driver's paths.

    Attributes:
        runner: local (processes on this machine), flink, dataflow, or portable (any job server of
            Beam).
        workers: Number of processes on this machine.
        flink_master: HOST:PORT of the REST server of the Flink cluster.
        flink_version: Version of the Flink cluster; it determines Beam's job server.
        job_server_jar: Path of Beam's job server for Flink; by default Beam downloads the job
            server of its own version from Maven Central.
        job_endpoint: HOST:PORT of a job server.
        worker_pool: HOST:PORT at which each worker of the engine reaches its own Beam worker pool,
            usually on the same host.
        parallelism: Number of tasks at the same time, up to the cluster's slots. Beam's job server
            does not ask the cluster how many slots it has.
        dataflow: Options of Dataflow as `NAME=VALUE`, with Beam's names: project, region,
            temp_location (gs://), sdk_container_image, and others such as machine_type.

    Raises:
        UsageError: A value is missing, is not one of the choices, or belongs to another runner.
    """

    runner: Runner = "local"
    workers: int = 1
    flink_master: str | None = None
    flink_version: str = "1.19"
    job_server_jar: str | None = None
    job_endpoint: str | None = None
    worker_pool: str = "localhost:50000"
    parallelism: int | None = None
    dataflow: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choices(self, runner=get_args(Runner))
        check_numbers(self, workers=1)
        if self.runner != "local" and self.workers != 1:
            raise UsageError(f"`workers` needs runner 'local', got {self.runner!r}")
        for runner, field in _ADDRESSES.items():
            address = getattr(self, field)
            if runner == self.runner and not address:
                raise UsageError(f"runner {runner!r} needs `{field}`, HOST:PORT")
            if runner != self.runner and address:
                raise UsageError(f"`{field}` belongs to runner {runner!r}, got {self.runner!r}")
        if self.runner in ("flink", "portable") and not self.parallelism:
            raise UsageError(
                f"runner {self.runner!r} needs `parallelism`, the number of parallel tasks: as "
                "many as the cluster has slots"
            )
        if self.dataflow or self.runner == "dataflow":
            self._check_dataflow()

    def _check_dataflow(self) -> None:
        if self.runner != "dataflow":
            raise UsageError(f"`dataflow` needs runner 'dataflow', got {self.runner!r}")
        told = dict(one.partition("=")[::2] for one in self.dataflow)
        for name in told:
            if name not in DATAFLOW_OPTIONS:
                choices = ", ".join(DATAFLOW_OPTIONS)
                raise UsageError(f"`dataflow` takes NAME=VALUE of {choices}; got {name!r}")
        for name in _DATAFLOW_NEEDS:
            if not told.get(name):
                raise UsageError(f"runner 'dataflow' needs `dataflow={name}=...`")
        for name in ("temp_location", "staging_location"):
            if not told.get(name, "gs://").startswith("gs://"):
                raise UsageError(f"`dataflow={name}` must begin with gs://, got {told[name]!r}")
        _check_beam_parses(self.beam_args())

    @property
    def address(self) -> str:
        """HOST:PORT of the engine; empty for this machine and for Dataflow."""
        return getattr(self, _ADDRESSES[self.runner]) if self.runner in _ADDRESSES else ""

    def beam_args(self) -> list[str]:
        if self.runner == "local":
            return local_beam_args(self.workers)
        if self.runner == "dataflow":
            return [f"--runner={_RUNNERS[self.runner]}", *(f"--{one}" for one in self.dataflow)]
        option = _ADDRESSES[self.runner]
        args = [f"--runner={_RUNNERS[self.runner]}", f"--{option}={self.address}"]
        # Workers already have penstock and TFX; without `sdk_container_image`, TFX builds a source
        # distribution per node.
        args += ["--sdk_container_image=unused", _PICKLED]
        args += ["--environment_type=EXTERNAL", f"--environment_config={self.worker_pool}"]
        # Without `environment_cache_millis`, a job's Python workers end with each stage that no
        # other stage overlaps.
        args += [f"--parallelism={self.parallelism}", "--environment_cache_millis=60000"]
        # Without this experiment, each job runs pip to log the installed packages, and the image
        # has no pip.
        args.append("--experiments=disable_logging_submission_environment")
        if self.runner == "flink":
            args.append(f"--flink_version={self.flink_version}")
            args += [f"--flink_job_server_jar={self.job_server_jar}"] if self.job_server_jar else []
        return args


# Beam 2.62 pickles with dill by default, Beam 2.77 with cloudpickle. Dill stores a function's
# module by name, and fails in workers that cannot import it.
_PICKLED = "--pickle_library=cloudpickle"


def _check_beam_parses(args: list[str]) -> None:
    from apache_beam.options.pipeline_options import PipelineOptions

    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            PipelineOptions(args).get_all_options()
    except SystemExit as error:  # argparse exits after printing its usage
        said = printed.getvalue().partition(": error: ")[2].strip()
        raise UsageError(
            f"`dataflow` takes NAME=VALUE, or NAME alone for a switch, as Beam does; {said}"
        ) from error


def local_beam_args(workers: int = 1) -> list[str]:
    """Returns Beam's arguments for this machine.

    Args:
        workers: Number of processes; 1 works in this process, which is much faster for small data
            than starting others (84 s instead of 280 s for TFX's penguin example).
    """
    mode = "in_memory" if workers == 1 else "multi_processing"
    return [
        # The runner is named explicitly, because Beam's DirectRunner first tries to download the
        # Prism runner. Beam 2.62 does not know FnApiRunner by its short name.
        "--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner",
        f"--direct_running_mode={mode}",
        f"--direct_num_workers={workers}",
        _PICKLED,
        # FnApiRunner does not use `sdk_container_image`; without this option, TFX builds a source
        # distribution of itself in each Beam node (2-4 s).
        "--sdk_container_image=unused",
    ]
