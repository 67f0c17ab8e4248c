"""JobSets with a stand-in for the Kubernetes API, on loopback.

The stand-in answers the seven kinds of requests that Penstock sends. It compares the job with the
fields of JobSet's CRD and with Kubernetes' own schema of Jobs.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
from json_server import JsonServer
from kubernetes import client
from tfx.orchestration.portable import data_types
from tfx.proto.orchestration import executable_spec_pb2, pipeline_pb2
from tfx.types.standard_artifacts import Examples, Model, ModelRun

from penstock.components.errors import DataError, PenstockError, UsageError
from penstock.pipelines.kubeflow import worker_jobs
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.pod import worker_job
from penstock.pipelines.kubeflow.resources import Affinity, Gpu, Resources
from tests.components.trainer.conftest import Data
from tests.free_ports import free_port
from tests.pipelines.kubeflow.placements import IMAGE

OWNER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "taxi-trainer", "uid": "0b5b088f-0690-4089-8b18-1b4188eb345a"},
    "spec": {"serviceAccountName": "penstock-runner", "containers": []},
}
NAME = "penstock-0123456789abcdef0123456789abcdef"
UID = "7d4f8e8e-6d8c-4bb2-a2a8-6a8d6f1c9a10"  # of the job that this attempt creates


def fields(required=(), **properties):
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": properties,
    }


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
# The fields are those of kubernetes-sigs/jobset 08dfbdf, config/components/crd/bases. The Job in a
# JobSet is checked against Kubernetes' own schema.
JOBSET = fields(
    ["spec"],
    apiVersion={"const": "jobset.x-k8s.io/v1alpha2"},
    kind={"const": "JobSet"},
    metadata={"type": "object"},
    spec=fields(
        failurePolicy=fields(maxRestarts=NUMBER, restartStrategy=TEXT, rules={"type": "array"}),
        network={"type": "object"},
        replicatedJobs={
            "type": "array",
            "items": fields(
                ["name", "template"],
                name=TEXT,
                groupName=TEXT,
                replicas=NUMBER,
                template=fields(metadata={"type": "object"}, spec={"type": "object"}),
            ),
        },
        suspend={"type": "boolean"},
        ttlSecondsAfterFinished=NUMBER,
    ),
)


def check_job(job):
    """Raises an error if JobSet's controller or Kubernetes would refuse the job."""
    jsonschema.validate(job, JOBSET)
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "w"}}
    kubernetes_validate.validate({**made, "spec": job_of(job)}, "1.33", strict=True)


def job_of(jobset):
    [replicated] = jobset["spec"]["replicatedJobs"]
    return replicated["template"]["spec"]


def pod(name, phase):
    return {"metadata": {"name": name, "uid": f"{name}-0"}, "status": {"phase": phase}}


class Cluster:
    """Answers requests by `METHOD path`; jobs end according to `states`, one state per request."""

    def __init__(self, *states):
        self.states = list(states)
        self.asked, self.job, self.logs, self.refuse = [], None, {}, {}
        self.deleted, self.uid = [], UID
        self.events, self.phase = [], "Running"
        # Whether an earlier job exists, and how many requests find its pod after the job is gone.
        self.old_job, self.old_pods = False, 0
        host = JsonServer(self.answer).host
        self.api = client.ApiClient(client.Configuration(host=host))

    def answer(self, method, path, body):
        self.asked.append(f"{method} {path}")
        for pattern, code in self.refuse.items():
            if re.search(pattern, self.asked[-1]):
                return code, {"message": "no"}
        if path.endswith("/log"):
            name = path.split("/")[-2]
            text = self.logs.get(name, (404, {}))
            return (200, text) if isinstance(text, str) else text
        if "/pods/" in path:
            return 200, OWNER
        if path.endswith("/pods"):
            return 200, {"items": self.pods()}
        if path.endswith("/events"):
            return 200, {"items": self.events}
        if method == "DELETE":
            self.deleted.append(body["preconditions"])
            self.old_job = False
            return 200, {}
        if method == "POST":
            if self.old_job:
                return 409, {"message": "already exists"}
            check_job(body)
            self.job = body
            self.begin(body)
            return 200, {"metadata": {"uid": UID}}
        return 200, {"metadata": {"uid": self.uid}, "status": {"conditions": self.conditions()}}

    def pods(self):
        if self.job:
            return [pod(name, self.phase) for name in self.logs]
        if not self.old_job:
            self.old_pods -= 1
        return [pod("old", "Running")] if self.old_pods >= 0 else []

    def begin(self, job):
        """Does nothing; in the subclass `Operator`, it starts the workers."""

    def conditions(self):
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        found = [{"type": "Created", "status": "True"}]
        return [*found, {"type": state, "status": "True", "message": "2 Worker replica(s)."}]


PLACEMENT = Placement(
    workers=2,
    gpu=Gpu(count=2, node_selector={"pool": "gpu"}),
    affinity=(Affinity("zone", values=("a",)),),
    image_pull_secrets=("registry",),
    nodes={"Trainer": {"memory_request": "16Gi", "memory_limit": "32Gi"}},
    pod_labels={"team": "mine"},
    secret_env={"bucket": {"id": "AWS_ACCESS_KEY_ID"}},
)
JOB = worker_job(PLACEMENT, "Trainer", IMAGE)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(worker_jobs, "_POLL_SECONDS", 0.01)


def run(cluster, job=JOB):
    jobs = worker_jobs.WorkerJobs(cluster.api, "penstock")
    jobs.run(job, NAME, "taxi-trainer", ["/penstock/invocation.pb", "tfx.Executor"])


@pytest.mark.parametrize(
    ("placement", "metadata"),
    [
        (PLACEMENT, None),
        (Placement(workers=3), None),
        (Placement(workers=2, resources=Resources("2")), None),
        (replace(PLACEMENT, queue="gpus"), {"labels": {"kueue.x-k8s.io/queue-name": "gpus"}}),
    ],
)
def test_job_fits_the_schemas_of_jobset_and_kubernetes(placement, metadata):
    job = worker_job(placement, "Trainer", IMAGE)
    check_job(job)
    assert job.get("metadata") == metadata


def test_jobset_is_created_watched_and_deleted(capsys):
    """Restarts of evicted pods do not count as failures; an error of the training fails the job."""
    cluster = Cluster("Suspended", "Suspended", "Running", "Completed")
    cluster.phase = "Succeeded"
    cluster.logs[f"{NAME}-worker-0-0-x7k"] = "epoch 1\ntwo"
    quota = f'Error creating: pods "{NAME}-worker-1" is forbidden: exceeded quota: penstock'
    about = {"kind": "Job", "name": f"{NAME}-worker-0"}
    cluster.events = [{"metadata": {"name": "1"}, "involvedObject": about, "message": quota}]
    run(cluster)

    jobsets = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/penstock/jobsets"
    changes = [asked for asked in cluster.asked if not asked.startswith("GET")]
    assert changes == [f"POST {jobsets}", f"DELETE {jobsets}/{NAME}"]
    assert cluster.deleted == [{"uid": UID}]
    uid = OWNER["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "taxi-trainer", "uid": uid}
    assert cluster.job["metadata"] == {"name": NAME, "ownerReferences": [owner]}
    spec = job_of(cluster.job)
    assert (spec["completions"], spec["completionMode"]) == (2, "Indexed")
    evicted, failed = spec["podFailurePolicy"]["rules"]
    assert evicted["action"] == "Ignore"
    assert failed["onExitCodes"]["values"] == list(range(1, 128))
    assert spec["backoffLimit"] == 4
    pod_spec = spec["template"]["spec"]
    assert pod_spec["restartPolicy"] == "Never"
    assert pod_spec["serviceAccountName"] == "penstock-runner"
    assert pod_spec["containers"][0]["args"] == [
        *("/penstock/invocation.pb", "tfx.Executor"),
        # The host names that JobSet's headless service assigns.
        f"{NAME}-worker-0-0.{NAME}.penstock.svc:2222",
        f"{NAME}-worker-0-1.{NAME}.penstock.svc:2222",
    ]
    labels = f"jobset.sigs.k8s.io/jobset-name={NAME}"
    assert capsys.readouterr().out.splitlines() == [  # each line once
        f"JobSet {NAME}: 2 workers; kubectl logs -f -l {labels} follows them",
        f"{NAME}-worker-0-0-x7k: epoch 1",
        f"{NAME}-worker-0-0-x7k: two",
        quota,
    ]


def test_job_name_is_the_same_in_each_attempt():
    def name(root, run_id, execution_id):
        folder = f"{root}/Trainer/.system/executor_execution/{execution_id}"
        return worker_jobs._job_name(
            data_types.ExecutionInfo(
                execution_id=execution_id,
                execution_output_uri=f"{folder}/executor_output.pb",
                pipeline_run_id=run_id,
            )
        )

    first = name("/penstock/runs/taxi", "one", 7)
    assert first == name("/penstock/runs/taxi", "one", 8)
    others = {name("/penstock/runs/taxi", "two", 9), name("/penstock/runs/digits", "one", 7)}
    assert len({first, *others}) == 3
    assert len(f"{first}-worker-9999") < 63


@pytest.mark.parametrize(("old_pods", "deletions"), [(1, 2), (-9, 1)])
def test_job_of_an_earlier_attempt_is_deleted_first(old_pods, deletions):
    """No job is created while a pod of the earlier job exists."""
    cluster = Cluster("Completed")
    cluster.old_job, cluster.old_pods = True, old_pods
    run(cluster)
    assert cluster.deleted == [*deletions * [{}], {"uid": UID}]


def test_jobs_of_other_attempts_that_stay_are_errors(monkeypatch):
    later = Cluster("Running")
    later.uid = "of-a-later-try"
    with pytest.raises(DataError, match="was deleted by someone else; run again"):
        run(later)
    assert later.deleted == [{"uid": UID}]
    monkeypatch.setattr(worker_jobs, "_API_TIMEOUT_SECONDS", 0.05)
    earlier = Cluster("Running")
    earlier.old_pods = 10**9
    with pytest.raises(DataError, match="of an earlier attempt, or a pod of it, is still there"):
        run(earlier)
    assert earlier.job is None


@pytest.mark.parametrize(
    ("refuse", "states", "error", "message"),
    [
        ({}, ["Failed"], DataError, r"failed: 2 Worker replica\(s\). See the workers' lines above"),
        ({"GET .*/jobsets": 403}, ["Running"], UsageError, "add k8s/components/workers"),
        ({"GET .*jobsets": 404}, ["Running"], DataError, "was deleted by someone else; run again"),
        ({"POST": 404}, ["Running"], UsageError, "no JobSets: install JobSet"),
        ({"POST": 403}, ["Running"], UsageError, "add k8s/components/workers"),
        ({"POST": 500}, ["Running"], PenstockError, "^Kubernetes rejects the JobSet: no$"),
    ],
)
def test_api_errors_are_one_line(refuse, states, error, message):
    cluster = Cluster(*states)
    cluster.refuse = refuse
    with pytest.raises(error, match=message):
        run(cluster)
    assert any(asked.startswith("DELETE") for asked in cluster.asked) == ("POST" not in refuse)


def test_short_api_outage_is_survived(monkeypatch):
    cluster = Cluster("Completed")
    cluster.refuse = {"GET .*jobsets": 503}
    threading.Timer(0.3, cluster.refuse.clear).start()
    run(cluster)
    cluster.refuse = {"GET .*jobsets": 503}
    monkeypatch.setattr(worker_jobs, "_API_TIMEOUT_SECONDS", 0.1)
    with pytest.raises(DataError, match="Kubernetes does not answer"):
        run(cluster)


# Code that the Trainer's own executor runs in each worker. The second worker kills itself once.
RUN_FN = """
import os, signal
from pathlib import Path
from types import SimpleNamespace
import keras
import tensorflow as tf
import penstock
from penstock.components.trainer.checkpoints import Checkpoints

def build_model():
    x = keras.Input((1,), name="x")
    model = keras.Model({"x": x}, keras.layers.Dense(1)(x))
    model.compile("adam", "mse")
    return model

def run_fn(fn_args):
    folder = Path(fn_args.custom_config["folder"])
    save = Checkpoints.save
    def saved(self, start, *arguments, **more):
        if self._scratch and start.step == 21 and not (folder / "killed").exists():
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        save(self, start, *arguments, **more)
    Checkpoints.save = saved
    spec = {name: tf.io.FixedLenFeature([1], tf.float32) for name in ("x",)}
    spec["y"] = tf.io.FixedLenFeature([1], tf.int64)
    trained = penstock.training.train(
        build_model,
        penstock.training.Input.rows(
            str(folder / "rows"), spec, label="y",
            options=penstock.training.InputOptions(batch_size=10),
        ).train,
        options=penstock.training.TrainOptions(max_steps=40, checkpoint_every_steps=7),
        model_run_dir=fn_args.model_run_dir,
        resume_dir=str(folder / "resume"),
    )
    if trained.is_chief:
        assert trained.record.resumed_from == 14, trained.record
        folder = fn_args.serving_model_dir
        penstock.training.export_model(trained.model, folder, label="y", spec=spec)
    trained.discard_checkpoints()
"""


class Operator(Cluster):
    """Runs workers as processes, and restarts those that end with a code of 128 or more."""

    def __init__(self, folder):
        super().__init__("Running")
        self.folder, self.codes, self.phase = folder, {}, "Failed"

    def begin(self, job):
        worker = job_of(job)
        [container] = worker["template"]["spec"]["containers"]
        program = Path(sys.executable).with_name(container["command"][0])
        # In a cluster, the workers' addresses are names of pods; here they are ports of this
        # machine.
        here = [f"127.0.0.1:{free_port()}" for _ in range(worker["completions"])]
        command = [str(program), *container["command"][1:], *container["args"][: -len(here)], *here]
        for index in range(len(here)):
            threading.Thread(target=self.work, args=(command, index)).start()

    def work(self, command, index):
        paths = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, "JOB_COMPLETION_INDEX": str(index), "PYTHONPATH": paths}
        code = 255
        while code >= 128:
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            code = done.returncode if done.returncode >= 0 else 128 - done.returncode
            self.codes.setdefault(index, []).append(code)
            name = f"{self.job['metadata']['name']}-worker-0-{index}-{len(self.codes[index])}"
            self.logs[name] = done.stderr

    def conditions(self):
        last = {index: codes[-1] for index, codes in self.codes.items()}
        failed = any(0 < code < 128 for code in last.values())
        self.states = ["Failed" if failed else "Completed" if last.get(0) == 0 else "Running"]
        return super().conditions()


@pytest.mark.slow
def test_two_workers_train_through_a_kill(tmp_path, monkeypatch, capsys):
    (tmp_path / "toy_run.py").write_text(RUN_FN)
    Data.write_examples(tmp_path / "rows")
    cluster = Operator(tmp_path)
    monkeypatch.setattr(worker_jobs.config, "load_incluster_config", lambda: None)
    monkeypatch.setattr(worker_jobs.client, "ApiClient", lambda: cluster.api)
    monkeypatch.setattr(worker_jobs, "_ACCOUNT", tmp_path)
    monkeypatch.setattr(worker_jobs, "_POLL_SECONDS", 0.5)
    # This name is longer than a host name may be.
    monkeypatch.setenv("KFP_POD_NAME", "taxi" * 20)
    (tmp_path / "namespace").write_text("penstock\n")
    spec = executable_spec_pb2.PythonClassExecutableSpec(
        class_path="tfx.components.trainer.executor.GenericExecutor"
    )
    kinds = {"rows": Examples, "model": Model, "model_run": ModelRun}
    examples, model, model_run = (kind() for kind in kinds.values())
    examples.split_names = '["train", "eval"]'
    for name, artifact in zip(kinds, (examples, model, model_run), strict=True):
        artifact.uri = str(tmp_path / name)
    info = data_types.ExecutionInfo(
        execution_id=7,
        input_dict={"examples": [examples]},
        output_dict={"model": [model], "model_run": [model_run]},
        exec_properties={
            "run_fn": "toy_run.run_fn",
            "train_args": "{}",
            "eval_args": "{}",
            "custom_config": json.dumps({"folder": str(tmp_path)}),
        },
        execution_output_uri=str(tmp_path / "executor_output.pb"),
        stateful_working_dir=str(tmp_path / "stateful"),
        tmp_dir=str(tmp_path / "tmp"),
        pipeline_node=pipeline_pb2.PipelineNode(),
        pipeline_info=pipeline_pb2.PipelineInfo(id="taxi"),
        pipeline_run_id="one",
    )
    output = worker_jobs.JobOperator(job=JOB, executor_spec=spec).run_executor(info)
    assert cluster.asked[0].endswith("/pods/" + "taxi" * 20)
    assert output.output_artifacts["model"].artifacts[0].uri == str(tmp_path / "model")
    assert cluster.codes[0] == [138, 0]
    assert cluster.codes[1][0] == 128 + signal.SIGKILL
    assert (tmp_path / "model/Format-Serving/saved_model.pb").exists()
    assert json.loads((tmp_path / "model_run/training.json").read_text())["replicas"] == 2
    assert "penstock: worker 0 of 2 stops, as worker 1 (" in capsys.readouterr().out
