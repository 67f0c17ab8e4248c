import pytest

from penstock.components.engine.options import DATAFLOW_OPTIONS, EngineOptions
from penstock.components.errors import UsageError

NEEDED = ("project=p", "region=r", "temp_location=gs://b/t", "sdk_container_image=i")


EXTERNAL = (
    "--sdk_container_image=unused --pickle_library=cloudpickle --environment_type=EXTERNAL "
    "--environment_config={} --parallelism={} --environment_cache_millis=60000 "
    "--experiments=disable_logging_submission_environment"
)


@pytest.mark.parametrize(
    ("runner", "options", "args"),
    [
        (
            "flink",
            {"flink_master": "jm:8081", "parallelism": 8, "job_server_jar": "/j.jar"},
            f"--runner=FlinkRunner --flink_master=jm:8081 {EXTERNAL.format('localhost:50000', 8)} "
            "--flink_version=1.19 --flink_job_server_jar=/j.jar",
        ),
        (
            "portable",
            {"job_endpoint": "j:8099", "worker_pool": "w:1", "parallelism": 4},
            f"--runner=PortableRunner --job_endpoint=j:8099 {EXTERNAL.format('w:1', 4)}",
        ),
        (
            "dataflow",
            {"dataflow": (*NEEDED, "machine_type=n2-standard-8")},
            "--runner=DataflowRunner --project=p --region=r --temp_location=gs://b/t "
            "--sdk_container_image=i --machine_type=n2-standard-8",
        ),
    ],
)
def test_what_beam_is_told(runner, options, args):
    from apache_beam.options.pipeline_options import PipelineOptions

    told = EngineOptions(runner=runner, **options).beam_args()
    assert " ".join(told) == args
    # Beam's parser must know every option in `told`.
    assert PipelineOptions(told).get_all_options(drop_default=True, retain_unknown_options=False)


PORTABLE = {"runner": "portable", "job_endpoint": "j:1"}
DATAFLOW = {"runner": "dataflow"}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"runner": "spark"}, "`runner` must be one of local, flink, portable, dataflow, got 'sp"),
        ({"runner": "flink"}, "runner 'flink' needs `flink_master`, HOST:PORT"),
        ({"job_endpoint": "j:1"}, "`job_endpoint` belongs to runner 'portable', got 'local'"),
        (PORTABLE, "runner 'portable' needs `parallelism`, the number of parallel tasks: as many"),
        ({"workers": 0}, "`workers` must be at least 1, got 0"),
        (PORTABLE | {"parallelism": 1, "workers": 2}, "`workers` needs runner 'local', got 'port"),
        ({"dataflow": NEEDED}, "`dataflow` needs runner 'dataflow', got 'local'"),
        (DATAFLOW, "runner 'dataflow' needs `dataflow=project=...`"),
        (DATAFLOW | {"dataflow": NEEDED[:-1]}, "runner 'dataflow' needs `dataflow=sdk_container_i"),
        (
            DATAFLOW | {"dataflow": (*NEEDED, "staging_location=/tmp")},
            "`dataflow=staging_location` must begin with gs://, got '/tmp'",
        ),
        (
            DATAFLOW | {"dataflow": ("worker_type=n2",)},
            f"`dataflow` takes NAME=VALUE of {', '.join(DATAFLOW_OPTIONS)}; got 'worker_type'",
        ),
    ],
)
def test_what_is_refused(options, error):
    with pytest.raises(UsageError) as caught:
        EngineOptions(**options)
    assert str(caught.value).startswith(error)


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ("num_workers=abc", "argument --num_workers: invalid int value: 'abc'"),
        ("no_use_public_ips=true", "argument --no_use_public_ips: ignored explicit argument 't"),
        ("machine_type", "argument .*--machine_type: expected one argument"),
    ],
)
def test_what_beam_refuses_is_one_line(option, error, capfd):
    said = "^`dataflow` takes NAME=VALUE, or NAME alone for a switch, as Beam does; "
    with pytest.raises(UsageError, match=f"{said}{error}"):
        EngineOptions(runner="dataflow", dataflow=(*NEEDED, option))
    assert capfd.readouterr().err == ""


def test_beam_knows_the_options_of_dataflow():
    from apache_beam.options.pipeline_options import PipelineOptions

    values = dict.fromkeys(DATAFLOW_OPTIONS, "1") | {"flexrs_goal": "COST_OPTIMIZED"}
    values |= {"autoscaling_algorithm": "NONE", "no_use_public_ips": ""}
    told = [f"--{name}={value}".removesuffix("=") for name, value in values.items()]
    known = PipelineOptions(told).get_all_options(drop_default=True, retain_unknown_options=False)
    assert len(known) == len(DATAFLOW_OPTIONS)
