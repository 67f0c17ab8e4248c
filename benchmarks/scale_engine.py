"""What an ingest costs on Flink and in one process: CPU of all processes, as the rows grow.

Of Flink the first job, the cluster's start with it, and the next two, as a session cluster has
them. The trips that the tfx wheel ships, over and over, in CSV of 8 files; a job manager, a task
manager with a worker pool, and Beam's job server are processes of this machine. Needs Java and
Beam's and Flink's jars:

    mvn --file tests/containers/flink dependency:copy-dependencies -DoutputDirectory="$PWD/jars"
    python benchmarks/scale_engine.py --jars jars                      10M rows, some 8 minutes
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from penstock.benchmarks.scale import write_trips
from penstock.benchmarks.taxi import timed
from penstock.components.errors import DataError
from penstock.components.tfrecord.manifest import read_manifest

FLINK = Path(__file__).resolve().parents[1] / "tests/containers/flink"
RUNTIME = "org.apache.flink.runtime"
FILES, SHARDS, TRIPS = 8, 40, 15_002
JOBS_IN_A_ROW = 3
HOST, JOBS, REST, BEAM, ARTIFACTS = "127.0.0.1", 36123, 38081, 38099, 38098


def prepare(folder: Path, rows: int) -> Path:
    """About so many rows, in files that are alike."""
    data = folder / "data"
    data.mkdir()
    for number in range(FILES):
        write_trips(data / f"{number}.csv", -(-rows // (TRIPS * FILES)))
    return data


def ingest(data: Path, output: Path, options: Sequence[str] = ()) -> float:
    """Run the command; its CPU seconds."""
    penstock = str(Path(sys.executable).with_name("penstock"))
    command = [penstock, "ingest", str(data), str(output), "--shards", str(SHARDS), *options]
    return timed(command, {}).cpu_seconds


@contextmanager
def cluster(folder: Path, jars: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A session cluster with one slot, its worker pool and a job server: their processes."""
    config = (FLINK / "config.yaml").read_text()
    (folder / "config.yaml").write_text(config.format(host=HOST, jobs=JOBS, rest=REST, disk=folder))
    java = ["java", f"@{FLINK / 'java.args'}", "-cp", f"{jars.resolve()}/*"]
    # Flink's defaults: nothing is killed here. With a heartbeat a second, as the tests have it,
    # the two JVMs take 14 ms of CPU a second more.
    heartbeats = ["-D", "heartbeat.interval=10000", "-D", "heartbeat.timeout=50000"]
    configured = ["--configDir", str(folder), *heartbeats]
    commands = [
        [*java, f"{RUNTIME}.entrypoint.StandaloneSessionClusterEntrypoint", *configured],
        [*java, f"{RUNTIME}.taskexecutor.TaskManagerRunner", *configured],
        [
            *(*java, "org.apache.beam.runners.flink.FlinkJobServerDriver"),
            *(f"--flink-master={HOST}:{REST}", f"--job-host={HOST}", f"--job-port={BEAM}"),
            *(f"--artifact-port={ARTIFACTS}", "--expansion-port=-1"),
        ],
        [
            *(sys.executable, "-W", "ignore", "-m"),
            *("apache_beam.runners.worker.worker_pool_main", "--service_port=50000"),
        ],
    ]
    # The pool starts its workers by the name `python`.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    started: list[subprocess.Popen[bytes]] = []
    with (folder / "cluster.log").open("wb") as log:
        try:
            started.extend(
                subprocess.Popen(
                    command, stdout=log, stderr=log, cwd=folder, env={**os.environ, "PATH": path}
                )
                for command in commands
            )
            while not _is_ready():
                if any(process.poll() is not None for process in started):
                    raise DataError((folder / "cluster.log").read_text()[-2000:])
                time.sleep(1)
            yield started
        finally:
            for process in (one for one in started if one.poll() is None):
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
                process.kill()
                process.wait()


def _is_ready() -> bool:
    """Whether the cluster has a slot and the job server listens."""
    with socket.socket() as attempt:
        if attempt.connect_ex((HOST, BEAM)):
            return False
    try:
        with urllib.request.urlopen(f"http://{HOST}:{REST}/overview") as answer:
            return bool(json.load(answer)["slots-available"])
    except OSError:
        return False


def spent(processes: Sequence[subprocess.Popen[bytes]]) -> float:
    """CPU seconds of processes, of those that they started, and of those of them that ended."""
    roots = [psutil.Process(process.pid) for process in processes]
    all_of_them = [*roots, *(child for root in roots for child in root.children(recursive=True))]
    return sum(sum(one.cpu_times()[:4]) for one in all_of_them)


def run(data: Path, folder: Path, jars: Path) -> dict[str, float]:
    """CPU seconds by contender; DataError if what they wrote differs."""
    seconds = {"in process": ingest(data, folder / "here")}
    scratch = folder / "flink"
    scratch.mkdir()
    engine = ["--runner", "portable", "--job-endpoint", f"{HOST}:{BEAM}", "--parallelism", "1"]
    with cluster(scratch, jars) as processes:
        spent_before = [0.0, 0.0]
        for number in range(1, JOBS_IN_A_ROW + 1):
            output = folder / f"job-{number}"
            driver = ingest(data, output, engine)
            spent_now = [spent(processes), spent(processes[-1:])]
            every, python = (now - then for now, then in zip(spent_now, spent_before, strict=True))
            seconds[f"Flink, job {number}"] = driver + every
            seconds[f"job {number}, Python"] = driver + python
            spent_before = spent_now
            if read_manifest(folder / "here") != read_manifest(output):
                raise DataError(f"{folder}: the manifests differ")
            shutil.rmtree(output)
    return seconds


def main() -> None:
    """Run both at all sizes and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 10_000_000])
    parser.add_argument("--jars", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    runs: dict[int, dict[str, float]] = {}
    for rows in args.rows:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
            data = prepare(Path(scratch), rows)
            runs[rows] = run(data, Path(scratch), args.jars)
    if args.json:
        print(json.dumps(runs, indent=1))
        return
    few, many = min(runs), max(runs)
    for name in runs[few]:
        cells = "".join(f"{one[name]:10.1f}" for one in runs.values())
        more = ""
        if many > few:
            cost = (runs[many][name] - runs[few][name]) / (many - few) * 1e6
            more = f" {cost:8.2f} us a row more"
        print(f"{name:16}{cells} s{more}")


if __name__ == "__main__":
    main()
