"""Which engine runs Beam work, as options: of an ingest, or of all Beam nodes of a pipeline."""

import io
from contextlib import redirect_stderr
from dataclasses import dataclass
from typing import Literal, get_args

from penstock.components.errors import UsageError

Runner = Literal["local", "flink", "dask", "portable", "dataflow"]
# The runner's option that says where it is, by the field that gives it.
_ADDRESSES = {
    "flink": ("flink_master", "flink_master"),
    "dask": ("dask_scheduler", "dask_client_address"),
    "portable": ("job_endpoint", "job_endpoint"),
}
# Beam rejects its Dask runner's short name.
_RUNNERS = {
    "flink": "FlinkRunner",
    "dask": "apache_beam.runners.dask.dask_runner.DaskRunner",
    "portable": "PortableRunner",
    "dataflow": "DataflowRunner",
}
_DATAFLOW_NEEDS = ("project", "region", "temp_location", "sdk_container_image")
# Of Beam's options those that say where and on what a job of ours runs.
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
    """What runs Beam work. Remote workers must see input and output under the same names.

    Attributes:
        runner: local (processes on this machine), flink, dask, dataflow, or portable: a job server
            of Beam.
        workers: Processes on this machine that work at the same time.
        flink_master: HOST:PORT of the Flink cluster's REST server.
        flink_version: Version of the Flink cluster, which decides Beam's job server.
        job_server_jar: Path of Beam's job server for Flink; else Beam fetches that of its own
            version from Maven Central.
        dask_scheduler: HOST:PORT of the Dask scheduler.
        job_endpoint: HOST:PORT of a job server.
        worker_pool: HOST:PORT of Beam's worker pool, as the engine's own workers see it; each has
            one beside it.
        parallelism: Tasks of Flink at the same time, up to its slots. Beam's job server does not
            ask the cluster, and takes 1 where it is not told.
        dataflow: Options of Dataflow, `NAME=VALUE` as Beam names them: project, region,
            temp_location (gs://) and sdk_container_image, and others, as machine_type.

    Raises:
        UsageError: A value is not one of the choices, or is another runner's.
    """

    runner: Runner = "local"
    workers: int = 1
    flink_master: str | None = None
    flink_version: str = "1.20"
    job_server_jar: str | None = None
    dask_scheduler: str | None = None
    job_endpoint: str | None = None
    worker_pool: str = "localhost:50000"
    parallelism: int | None = None
    dataflow: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.runner not in get_args(Runner):
            choices = ", ".join(get_args(Runner))
            raise UsageError(f"`runner` must be one of {choices}, got {self.runner!r}")
        if self.workers < 1:
            raise UsageError(f"`workers` must be at least 1, got {self.workers}")
        if self.runner != "local" and self.workers != 1:
            raise UsageError(f"`workers` needs runner 'local', got {self.runner!r}")
        for runner, (field, _) in _ADDRESSES.items():
            address = getattr(self, field)
            if runner == self.runner and not address:
                raise UsageError(f"runner {runner!r} needs `{field}`, HOST:PORT")
            if runner != self.runner and address:
                raise UsageError(f"`{field}` is of runner {runner!r}, got {self.runner!r}")
        if self.runner in ("flink", "portable") and not self.parallelism:
            raise UsageError(
                f"runner {self.runner!r} needs `parallelism`, the tasks at the same time: as many "
                "as the cluster has slots"
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
        """HOST:PORT of an engine elsewhere; empty for this machine and for Dataflow."""
        return getattr(self, _ADDRESSES[self.runner][0]) if self.runner in _ADDRESSES else ""

    def beam_args(self) -> list[str]:
        """What Beam is told, as a pipeline's `beam_pipeline_args` have it."""
        if self.runner == "local":
            return local_beam_args(self.workers)
        if self.runner == "dataflow":
            return [f"--runner={_RUNNERS[self.runner]}", *(f"--{one}" for one in self.dataflow)]
        option = _ADDRESSES[self.runner][1]
        args = [f"--runner={_RUNNERS[self.runner]}", f"--{option}={self.address}"]
        # Workers have penstock and TFX; else TFX builds a distribution of itself in each node.
        args.append("--sdk_container_image=unused")
        if self.runner == "dask":
            return [*args, "--dask_partition_size=1"]  # of tasks, each minutes of work
        args += ["--environment_type=EXTERNAL", f"--environment_config={self.worker_pool}"]
        # Else a job's Python workers end with each stage that no other overlaps.
        args += [f"--parallelism={self.parallelism}", "--environment_cache_millis=60000"]
        # Else each job asks pip what is installed here, which the image has not, to log it there.
        args.append("--experiments=disable_logging_submission_environment")
        if self.runner == "flink":
            args.append(f"--flink_version={self.flink_version}")
            args += [f"--flink_job_server_jar={self.job_server_jar}"] if self.job_server_jar else []
        return args


def _check_beam_parses(args: list[str]) -> None:
    from apache_beam.options.pipeline_options import PipelineOptions

    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            PipelineOptions(args).get_all_options()
    except SystemExit as error:  # argparse's, after a page of usage
        said = printed.getvalue().partition(": error: ")[2].strip()
        raise UsageError(
            f"`dataflow` takes NAME=VALUE, of a switch NAME alone, as Beam does; {said}"
        ) from error


def local_beam_args(workers: int = 1) -> list[str]:
    """Beam's arguments.

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
