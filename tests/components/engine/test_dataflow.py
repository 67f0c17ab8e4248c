"""An ingest on a stand-in for Dataflow's API, which runs the staged job on Beam's local runner."""

import json
import os

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from google_store import GoogleHandler, GoogleStore

from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions, SplitOptions
from penstock.components.files import remote_system
from penstock.components.tfrecord.manifest import Manifest
from penstock.components.tfrecord.sharding import ShardOptions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = (
    *("project=my-project", "region=europe-west1", "temp_location=gs://bucket/tmp"),
    *("sdk_container_image=registry/penstock@sha256:0", "machine_type=n2-standard-8"),
    *("service_account_email=jobs@my-project.iam", "max_num_workers=20"),
    *("subnetwork=regions/europe-west1/subnetworks/own", "no_use_public_ips"),
)

# Beam refuses an endpoint with a port, so the script switches this check off.
SCRIPT = """
from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator
from penstock.pipelines.cli.main import main
PipelineOptionsValidator.validate_endpoint_url = lambda self, url: True
main()
"""


class DataflowHandler(GoogleHandler):
    """Runs each posted job before it answers; `server.jobs` has the path and job of each POST."""

    def reply(self, method, target, body):
        if not target.startswith("/v1b3/"):
            return super().reply(method, target, body)
        if method == "POST":
            job = json.loads(body)
            self.server.jobs.append((target.partition("?")[0], job))
            run_staged(self.server.objects, job)
        return self.json(200, {"id": "job-1", "currentState": "JOB_STATE_DONE"})


def run_staged(objects, job):
    """Stands in for Dataflow's workers: runs the staged pipeline in this process."""
    told = job["environment"]["sdkPipelineOptions"]["options"]
    staged = objects[told["pipelineUrl"].removeprefix("gs://bucket/")]
    pipeline = beam_runner_api_pb2.Pipeline.FromString(staged)
    for environment in pipeline.components.environments.values():
        environment.urn, environment.payload = python_urns.EMBEDDED_PYTHON, b""
    FnApiRunner().run_via_runner_api(pipeline, PipelineOptions([])).wait_until_finish()


@pytest.fixture
def dataflow(tmp_path, monkeypatch):
    """Stand-in for Dataflow's API and for Google Cloud Storage."""
    server = GoogleStore(tmp_path, DataflowHandler)
    server.jobs = []
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    remote_system._make.cache_clear()
    yield server
    server.close()
    remote_system._make.cache_clear()


def test_the_same_bytes_as_in_process(dataflow, taxi_csv, tmp_path, penstock):
    options = IngestOptions(shards=ShardOptions(shards=4))
    job = IngestInput(str(taxi_csv), splits=SplitOptions())
    here = ingest([job], tmp_path / "here", options)
    # Some versions of Beam use HTTP only for an endpoint on `localhost`, and gRPC for any other.
    options = (*OPTIONS, f"dataflow_endpoint=http://localhost:{dataflow.server_port}")
    told = (part for option in options for part in ("--dataflow", option))
    script = tmp_path / "penstock.py"
    script.write_text(SCRIPT)
    command = ("ingest", taxi_csv, "gs://bucket/out", "--shards=4", "--runner=dataflow", *told)
    done = penstock(*command, env=dict(os.environ), script=str(script))
    assert done.returncode == 0, done.stderr

    there = Manifest.from_json(dataflow.objects["out/manifest.json"].decode(), "out")
    assert there == here
    [(path, job)] = dataflow.jobs
    assert path == "/v1b3/projects/my-project/locations/europe-west1/jobs"
    assert job["type"] in ("JOB_TYPE_BATCH", 1)  # Beam 2.77 and newer send a number
    environment = job["environment"]
    assert environment["serviceAccountEmail"] == "jobs@my-project.iam"
    assert environment["tempStoragePrefix"].startswith("storage.googleapis.com/bucket/tmp/")
    [pool] = environment["workerPools"]
    [image] = pool["sdkHarnessContainerImages"]
    assert image["containerImage"] == "registry/penstock@sha256:0"
    assert pool["machineType"] == "n2-standard-8"
    assert pool["autoscalingSettings"]["maxNumWorkers"] == 20
    assert pool["subnetwork"] == "regions/europe-west1/subnetworks/own"
    assert pool["ipConfiguration"] in ("WORKER_IP_PRIVATE", 2)
