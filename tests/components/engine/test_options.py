import pytest

from penstock.components.engine.options import EngineOptions
from penstock.components.errors import UsageError


@pytest.mark.parametrize(
    ("options", "args"),
    [
        (
            {"runner": "flink", "flink_master": "jm:8081", "parallelism": 8},
            "--runner=FlinkRunner --flink_master=jm:8081 --sdk_container_image=unused "
            "--environment_type=EXTERNAL --environment_config=localhost:50000 "
            "--parallelism=8 --flink_version=1.20",
        ),
        (
            {
                "runner": "flink",
                "flink_master": "jm:8081",
                "parallelism": 2,
                "job_server_jar": "/j.jar",
            },
            "--runner=FlinkRunner --flink_master=jm:8081 --sdk_container_image=unused "
            "--environment_type=EXTERNAL --environment_config=localhost:50000 --parallelism=2 "
            "--flink_version=1.20 --flink_job_server_jar=/j.jar",
        ),
        (
            {"runner": "dask", "dask_scheduler": "d:8786"},
            "--runner=apache_beam.runners.dask.dask_runner.DaskRunner --dask_client_address=d:8786 "
            "--sdk_container_image=unused --dask_partition_size=1",
        ),
        (
            {
                "runner": "portable",
                "job_endpoint": "j:8099",
                "worker_pool": "w:1",
                "parallelism": 4,
            },
            "--runner=PortableRunner --job_endpoint=j:8099 --sdk_container_image=unused "
            "--environment_type=EXTERNAL --environment_config=w:1 --parallelism=4",
        ),
    ],
)
def test_what_beam_is_told(options, args):
    # Beam's own parser must know each of them.
    from apache_beam.options.pipeline_options import PipelineOptions

    told = EngineOptions(**options).beam_args()
    assert " ".join(told) == args
    assert PipelineOptions(told).get_all_options(drop_default=True, retain_unknown_options=False)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"runner": "spark"}, "`runner` must be one of local, flink, dask, portable, got 'spark'"),
        ({"runner": "flink"}, "runner 'flink' needs `flink_master`, HOST:PORT"),
        ({"job_endpoint": "j:1"}, "`job_endpoint` is of runner 'portable', got 'local'"),
        (
            {"runner": "portable", "job_endpoint": "j:1"},
            "runner 'portable' needs `parallelism`, the tasks at the same time: as many as the "
            "cluster has slots",
        ),
        ({"workers": 0}, "`workers` must be at least 1, got 0"),
        (
            {"runner": "dask", "dask_scheduler": "d:1", "workers": 2},
            "`workers` are processes of the runner local, not of an engine",
        ),
    ],
)
def test_what_is_refused(options, error):
    with pytest.raises(UsageError) as caught:
        EngineOptions(**options)
    assert str(caught.value) == error
