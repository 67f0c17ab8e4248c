"""An ingest on Dask: a scheduler, and two worker processes."""

import pytest
from distributed import LocalCluster

from penstock.components.engine.options import EngineOptions
from penstock.components.engine.pipeline import engine_pipeline, local_pipeline
from penstock.components.example_gen.ingest import ingest, plan_job
from penstock.components.example_gen.options import IngestOptions
from penstock.components.example_gen.split_options import SplitOptions
from penstock.components.sources.open import open_source
from penstock.components.tfrecord.sharding import ShardOptions

pytestmark = pytest.mark.ci


def test_the_same_bytes_as_in_process(taxi_csv, tmp_path):
    options = IngestOptions(shards=ShardOptions(shards=4))
    job = plan_job(open_source(str(taxi_csv)), SplitOptions(), options)
    here = ingest([job], tmp_path / "here", options, local_pipeline)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        engine = EngineOptions(runner="dask", dask_scheduler=address)
        there = ingest([job], tmp_path / "there", options, lambda: engine_pipeline(engine))
    assert there == here
    assert there.account.read == 15_002
