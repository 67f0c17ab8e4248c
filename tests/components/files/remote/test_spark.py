"""Writes a DataFrame to S3 from a standalone Spark cluster, while an executor is killed."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from penstock.components.errors import UsageError
from penstock.components.example_gen.options import Split, SplitOptions
from penstock.components.example_gen.spark_writer import write_tfrecords
from penstock.components.files import store_output
from penstock.components.sources.open import open_source
from penstock.components.sources.tfrecords.source import TFRecord
from penstock.components.tfrecord.manifest import Manifest
from tests.free_ports import free_port

pytestmark = pytest.mark.slow
SPLITS = SplitOptions((Split("train", 2), Split("eval", 1)))


@pytest.fixture
def cluster(s3, tmp_path, monkeypatch):
    """The address of a standalone master with two workers of one core, each on its own host."""
    import pyspark

    deploy = "org.apache.spark.deploy"
    started = [Path(pyspark.__file__).parent / "bin" / "spark-class", f"{deploy}.master.Master"]
    port = free_port()
    common = ["--webui-port", "0"]
    commands = [[*started, "--host", "127.0.0.1", "--port", port, *common]]
    for host in ("127.0.0.1", "127.0.0.2"):  # speculation needs a second host
        place = ["--host", host, "--work-dir", tmp_path / host, "--cores", 1, "--memory", "512m"]
        worker = [started[0], f"{deploy}.worker.Worker", *place, *common]
        commands.append([*worker, f"spark://127.0.0.1:{port}"])
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with (tmp_path / "cluster.log").open("w") as log, ExitStack() as stack:
        for command in commands:
            arguments = [str(argument) for argument in command]
            process = subprocess.Popen(arguments, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield commands[1][-1]


@pytest.fixture
def spark(cluster):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(cluster)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.5",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def test_an_executor_killed_and_a_task_run_twice(spark, s3, proxy, tmp_path):
    """Kills partition 1's executor once; partition 2's first attempt waits for a second attempt."""
    killed, second = tmp_path / "killed", tmp_path / "second"

    def trouble(batches):
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        partition, until = context.partitionId(), time.monotonic() + 300
        for batch in batches:
            yield batch
            if partition == 1 and not killed.exists():
                killed.touch()
                os.kill(psutil.Process().parent().ppid(), signal.SIGKILL)
            if partition == 2 and context.attemptNumber() > 0:
                second.touch()
            while partition == 2 and not second.exists() and time.monotonic() < until:
                time.sleep(0.05)

    proxy.put_faults += ["503", "reset"]
    df = spark.range(0, 4000, 1, 4).mapInArrow(trouble, "id long")
    manifest = write_tfrecords(df, "s3a://bucket/out/", splits=SPLITS)
    assert killed.exists()
    assert second.exists()
    assert proxy.put_faults == []
    assert manifest.account.read == sum(manifest.account.written.values()) == 4000
    stored = s3.get_object(Bucket="bucket", Key="out/manifest.json")["Body"].read()
    assert Manifest.from_json(stored.decode(), "") == manifest
    objects = s3.list_objects_v2(Bucket="bucket", Prefix="out/")["Contents"]
    # An abandoned attempt at a Spark task may still write files below .work.
    names = {one["Key"].removeprefix("out/") for one in objects if "/.work/" not in one["Key"]}
    assert names == {"manifest.json"} | {shard.file for shard in manifest.shards}
    splits = ["s3a://bucket/out/Split-train", "s3a://bucket/out/Split-eval"]
    source = open_source(splits, TFRecord())
    rows = [
        row
        for run in source.cut(1)
        for batch in source.read(run)
        for row in batch.table.column(0).to_pylist()
    ]
    assert sorted(rows) == list(range(4000))

    with pytest.raises(UsageError, match="s3://bucket/out exists already"):
        write_tfrecords(df, "s3a://bucket/out", splits=SPLITS)
    with (
        store_output.open_store("s3://bucket/two", overwrite=False),
        pytest.raises(UsageError, match="two: another ingest is writing here"),
    ):
        write_tfrecords(df, "s3a://bucket/two", splits=SPLITS)
