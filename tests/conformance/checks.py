"""Checks of a cluster with Kubeflow Pipelines; each returns its observation, or raises an error."""

import json
import re
import time
from collections.abc import Callable

from cluster import REPOSITORY, Cluster, NotThereError, need, states

_FEW_STEPS = ("--set", "train.max_steps=50")
_STORE = "/penstock/metadata.sqlite"
# The placement of k8s/overlays/single-node without retries, so that a failure is reported at once.
_PLACEMENT = (REPOSITORY / "k8s/overlays/single-node/placement.yaml").read_text() + (
    "retry: {times: 0}\n"
)
_AS_USER = json.dumps({"spec": {"securityContext": {"runAsNonRoot": True, "runAsUser": 65532}}})
_HOME = {"name": "HOME", "value": "/tmp"}
# The cron fields of kfp begin with seconds.
_SCHEDULE = """\
import sys, kfp

file, host = sys.argv[1:]
client = kfp.Client(host=host, existing_token=open("/token/token").read())
made = client.create_recurring_run(
    client.create_experiment("penstock").experiment_id,
    job_name="conformance",
    pipeline_package_path=file,
    cron_expression="0 * * * * *",
    max_concurrency=1,
    no_catchup=True,
    service_account="penstock-runner",
)
print(made.recurring_run_id)
"""
_TENANT = "penstock"  # the namespace that the overlay `rwx` creates


def overlays_are_accepted(cluster: Cluster) -> str:
    """Every object of every overlay passes the API server's validation and admission."""
    seen = []
    for folder in sorted((REPOSITORY / "k8s/overlays").iterdir()):
        namespace = f"conformance-{folder.name}"
        cluster.kubectl("create", "namespace", namespace)
        try:
            answer = cluster.kubectl(
                *("apply", "--dry-run=server", "-f", "-"),
                stdin=cluster.overlay(folder.name, namespace=namespace),
                check=False,
            )
        finally:
            cluster.kubectl("delete", "namespace", namespace, "--wait=false")
        wrong = [line for line in answer.splitlines() if "error" in line.lower()]
        need(not wrong, f"{folder.name}: {' '.join(wrong)[:400]}")
        seen.append(folder.name)
    return ", ".join(seen)


def restricted_and_quota_refuse(cluster: Cluster) -> str:
    """The overlay `rwx` admits a run's pod to its namespace, but no unsafe or too large pods."""
    cluster.install("rwx", namespace=_TENANT)
    safe = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    pods = {
        "a pod of a run": (safe, {}, ""),
        "as root": ({**safe, "runAsUser": 0, "runAsNonRoot": False}, {}, "violates PodSecurity"),
        "privileged": (
            {**safe, "privileged": True, "allowPrivilegeEscalation": True},
            {},
            "violates PodSecurity",
        ),
        "without seccomp": (
            {**safe, "seccompProfile": {"type": "Unconfined"}},
            {},
            "violates PodSecurity",
        ),
        "with a GPU": (safe, {"limits": {"nvidia.com/gpu": "1"}}, "exceeded quota"),
        "of 48 CPUs": (safe, {"limits": {"cpu": "48"}}, "maximum cpu usage"),
    }
    for name, (context, resources, refusal) in pods.items():
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "conformance"},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": cluster.image,
                        "securityContext": context,
                        "resources": resources,
                    }
                ]
            },
        }
        answer = cluster.kubectl(
            *("create", "--dry-run=server", "-n", _TENANT, "-f", "-"),
            stdin=json.dumps(pod),
            check=False,
        )
        expected = refusal or "created (server dry run)"
        need(expected in answer, f"{name}: expected {expected!r}, got {answer.strip()[:300]}")
    return f"admitted: {', '.join(n for n in pods if not pods[n][2])}; refused: " + ", ".join(
        name for name in pods if pods[name][2]
    )


def accounts_may_only_what_they_need(cluster: Cluster) -> str:
    """The service accounts of `rwx` have rights that their pods need, and lack other rights."""
    runner = f"system:serviceaccount:{_TENANT}:penstock-runner"
    own = f"system:serviceaccount:{_TENANT}:penstock"
    allowed = [
        (runner, "create", "workflowtaskresults.argoproj.io"),
        (runner, "get", "pods"),
        (runner, "get", "configmaps/kfp-launcher"),
    ]
    denied = [
        (runner, "list", "secrets"),
        (runner, "get", "secrets/penstock-mysql"),
        (runner, "create", "pods"),
        (runner, "delete", "persistentvolumeclaims"),
        (own, "get", "pods"),
        (own, "list", "secrets"),
    ]
    for answer, rights in (("yes", allowed), ("no", denied)):
        for account, verb, what in rights:
            said = cluster.kubectl(
                "auth", "can-i", verb, what, "-n", _TENANT, "--as", account, check=False
            )
            need(said.split()[:1] == [answer], f"{account} {verb} {what}: {said.strip()}")
    return f"{len(allowed)} rights given, {len(denied)} not"


def volume_is_writable(cluster: Cluster) -> str:
    """The job in the overlay writes a file and renames its folder on the volume, as uid 65532."""
    name = "job/penstock-volume-check"
    cluster.kubectl(
        "wait", "--for=condition=complete", "--timeout=600s", "-n", cluster.namespace, name
    )
    return cluster.kubectl("logs", "-n", cluster.namespace, name).strip()


def doctor(cluster: Cluster) -> str:
    """`penstock doctor` finds no fault that would stop a run."""
    text = cluster.in_pod(
        *("penstock", "doctor", "--kubeflow", cluster.kfp, "--namespace", cluster.namespace),
        *("--service-account", "penstock-runner"),
    )
    return f"{len(text.strip().splitlines())} lines, none that stops a run"


def taxi_runs(cluster: Cluster) -> str:
    """Compiles and submits taxi; the run ends with a pushed model."""
    run = _run_taxi(cluster, *_FEW_STEPS)
    ended = states(cluster.executions(_STORE), run)
    need(set(ended.values()) <= {"COMPLETE", "CACHED"}, str(ended))
    need("Pusher" in ended, f"no Pusher in {ended}")
    return f"{len(ended)} nodes; run {run[:8]}"


def _run_taxi(cluster: Cluster, *options: str) -> str:
    """Compiles and submits taxi; returns the id of its run once the run has succeeded."""
    run, text = cluster.submit(cluster.compile("taxi", *options, placement=_PLACEMENT))
    need(f"run {run} succeeded" in text, text[-600:])
    return run


def taxi_again_is_cached(cluster: Cluster) -> str:
    """In a second run with the same options, at most one node does not come from TFX's cache."""
    run = _run_taxi(cluster, *_FEW_STEPS)
    ended = states(cluster.executions(_STORE), run)
    cached = [node for node, state in ended.items() if state == "CACHED"]
    need(len(cached) >= len(ended) - 1, str(ended))
    return f"{len(cached)} of {len(ended)} nodes from the cache"


def resolver_finds_the_blessed_model(cluster: Cluster) -> str:
    """The Evaluator compares a new model with the model that the latest earlier run trained."""
    run = _run_taxi(cluster, "--set", f"train.max_steps={51 + int(time.time()) % 50}")
    executions = cluster.executions(_STORE)
    trained = [e for e in executions if e["node"] == "Trainer" and e["state"] == "COMPLETE"]
    earlier = [e["outputs"]["model"] for e in trained if e["run"] != run]
    own = [e for e in executions if e["run"] == run and e["node"].endswith("Evaluator")]
    [baseline] = [e["inputs"]["baseline_model"] for e in own]
    need(earlier[-1:] == [baseline], f"compared with {baseline}")
    return "the Evaluator's baseline is the model of the run before"


def failing_node_says_why(cluster: Cluster) -> str:
    """A bad cell fails the run; KFP's run, `penstock submit` or a pod names its line and column."""
    bad = "/penstock/conformance/bad"
    script = (
        "import pathlib, sys, tfx; "
        "data = pathlib.Path(tfx.__file__).parent / "
        "'examples/chicago_taxi_pipeline/data/simple/data.csv'; "
        "lines = data.read_text().splitlines()[:100]; "
        "cells = lines[7].split(','); cells[lines[0].split(',').index('fare')] = 'free'; "
        "lines[7] = ','.join(cells); to = pathlib.Path(sys.argv[1]); "
        "to.mkdir(parents=True, exist_ok=True); (to / 'trips.csv').write_text('\\n'.join(lines))"
    )
    cluster.in_pod("python", "-W", "ignore", "-c", script, bad)
    file = cluster.compile("taxi", "--set", f"data={bad}", placement=_PLACEMENT)
    run, text = cluster.submit(file)
    need(f"run {run} failed" in text, text[-600:])
    need("ShardedExampleGen" in text, f"the failed node is not named: {text[-400:]}")
    line = "line 8 (row 7), column 'fare'"
    shown = [
        where
        for where, said in (
            ("KFP's run", json.dumps(cluster.ask_kfp(f"/apis/v2beta1/runs/{run}"))),
            ("the output of penstock submit", text),
            ("the pod's termination message", _termination_messages(cluster, run)),
        )
        if line in said
    ]
    need(shown, f"no {line!r} in KFP's run, submit's output or the pod's message")
    return f"the line is in {' and '.join(shown)}"


def _termination_messages(cluster: Cluster, run: str) -> str:
    pods = cluster.objects("pods", "-l", f"pipeline/runid={run}")
    return " ".join(
        status["state"]["terminated"].get("message", "")
        for pod in pods
        for status in pod.get("status", {}).get("containerStatuses", [])
        if "terminated" in status.get("state", {})
    )


def schedule_starts_its_own_run(cluster: Cluster) -> str:
    """A schedule with one run per minute starts a run, which succeeds."""
    file = cluster.compile("taxi", *_FEW_STEPS, placement=_PLACEMENT)
    made = cluster.in_pod("python", "-c", _SCHEDULE, file, cluster.kfp)
    schedule = made.splitlines()[-1]

    def state() -> str:
        return cluster.ask_kfp(f"/apis/v2beta1/runs/{runs[0]['run_id']}").get("state", "")

    try:
        runs: list[dict] = []
        _until(lambda: runs.extend(_runs_of(cluster, schedule)) or runs, minutes=10)
        cluster.ask_kfp(f"/apis/v2beta1/recurringruns/{schedule}:disable", "POST")
        _until(lambda: state() in ("SUCCEEDED", "FAILED"), minutes=30)
    finally:
        # Kubernetes deletes the runs of a schedule with the schedule.
        cluster.ask_kfp(f"/apis/v2beta1/recurringruns/{schedule}", "DELETE")
    need(state() == "SUCCEEDED", f"its run ended as {state()}")
    return f"run {runs[0]['run_id'][:8]} of its own succeeded; the schedule was deleted"


def _runs_of(cluster: Cluster, schedule: str) -> list[dict]:
    runs = cluster.ask_kfp("/apis/v2beta1/runs?page_size=100").get("runs", [])
    return [run for run in runs if run.get("recurring_run_id") == schedule]


def _until(true: Callable[[], object], *, minutes: int) -> None:
    end = time.monotonic() + 60 * minutes
    while not true():
        need(time.monotonic() < end, f"not within {minutes} minutes")
        time.sleep(5)


def users_image_runs(cluster: Cluster, image: str, pipeline: str) -> str:
    """A pipeline in a user's package runs from the user's own image."""
    if not image:
        raise NotThereError("no --own-image given")
    by_tag = "" if "@" in image else "--allow-mutable-tag"
    compiled = cluster.kubectl(
        *("run", "penstock-own", "-n", cluster.namespace, "--image", image, "--restart=Never"),
        *("--rm", "-i", "--quiet", "--command", "--overrides", _AS_USER, "--", "sh", "-c"),
        f"penstock compile {pipeline} --image {image} {by_tag} --out /tmp/own.yaml >/dev/null"
        " && cat /tmp/own.yaml",
    )
    cluster.in_pod("sh", "-c", "cat >/tmp/own.yaml", stdin=compiled)
    run, text = cluster.submit("/tmp/own.yaml")
    need(f"run {run} succeeded" in text, text[-600:])
    return f"{pipeline} of {image}"


def jobset_trains(cluster: Cluster) -> str:
    """Two workers of a JobSet train taxi's model."""
    cluster.need_kind("jobsets.jobset.x-k8s.io")
    cluster.install("single-node", namespace=cluster.namespace, components=("workers",))
    file = cluster.compile(
        *("taxi", "--set", f"train.max_steps={int(time.time()) % 100 + 100}"),
        *("--set", "input.cache=none"),  # taxi's memory cache works only for one worker
        placement=_PLACEMENT + "workers: 2\n",
    )
    run, text = cluster.submit(file)
    need(f"run {run} succeeded" in text, text[-600:])
    return "two workers, and the model was pushed"


def profile_leaves_others_alone(cluster: Cluster) -> str:
    """Taxi runs in KFP's namespace with the overlay `profile` and MariaDB.

    The overlay has no quota, no limits and no policies for other users' pods.
    """
    secret = cluster.kubectl(
        *("create", "secret", "generic", "penstock-mysql", "-n", cluster.namespace),
        *("--from-literal=user=penstock", "--from-literal=password=some-words"),
        *("--from-literal=root-password=other-words", "--dry-run=client", "-o", "yaml"),
    )
    cluster.apply(secret)
    cluster.kubectl(
        *("delete", "job", "penstock-volume-check", "-n", cluster.namespace, "--ignore-not-found")
    )
    objects = cluster.overlay("profile", namespace=cluster.namespace, mariadb=True)
    for kind in ("ResourceQuota", "LimitRange", "kind: Namespace\n"):
        need(kind not in objects, f"the overlay has a {kind}")
    # The claim `penstock` of the previous overlay is already bound, and a claim's class never
    # changes, so this claim is not applied again.
    kept = [d for d in objects.split("\n---\n") if "kind: PersistentVolumeClaim" not in d]
    claims = [d for d in objects.split("\n---\n") if "kind: PersistentVolumeClaim" in d]
    cluster.apply("\n---\n".join([*kept, *(c for c in claims if "name: penstock\n" not in c)]))
    cluster.kubectl(
        *("rollout", "status", "--timeout=900s", "-n", cluster.namespace),
        "statefulset/penstock-mysql",
    )
    placement = (REPOSITORY / "k8s/overlays/profile/placement.yaml").read_text()
    file = cluster.compile(
        "taxi", *_FEW_STEPS, placement=placement + _PLACEMENT + "pipeline_root: /penstock/profile\n"
    )
    run, text = cluster.submit(file)
    need(f"run {run} succeeded" in text, text[-600:])
    policies = cluster.objects("networkpolicies", "-l", "app.kubernetes.io/instance=penstock")
    everywhere = [p["metadata"]["name"] for p in policies if not p["spec"]["podSelector"]]
    need(not everywhere, f"policies that select every pod: {everywhere}")
    return "taxi with MariaDB; no quota, limits or policy for pods of others"


def kserve_gets_the_model(cluster: Cluster) -> str:
    """A pushed model would become a revision of an InferenceService; this is not checked yet."""
    cluster.need_kind("inferenceservices.serving.kserve.io")
    raise NotThereError("no check of it has been written: there has been no KServe to write it on")


def store_of_another_kind(cluster: Cluster, image: str) -> str:
    """KFP keeps a run's artifacts on another S3 server, which `providers` of kfp-launcher names.

    The command `s3.sh` in `image` starts an S3 server, like the one in tests/cluster/stand-ins.
    """
    if not image:
        raise NotThereError("no --s3-image given")
    name, bucket = "conformance-store", "mlpipeline"
    host = f"{name}.{cluster.namespace}:8333"
    labels = {"app": name}
    container = {"name": "s3", "image": image, "command": ["s3.sh"], "env": [_HOME]}
    ports = [{"port": 8333}]
    for kind, spec in (
        ("Pod", {"containers": [container]}),
        ("Service", {"selector": labels, "ports": ports}),
    ):
        made = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels}}
        cluster.apply(json.dumps({**made, "spec": spec}), "-n", cluster.namespace)
    launcher = ("configmap", "kfp-launcher", "-n", cluster.namespace)
    before = json.loads(cluster.kubectl("get", *launcher, "-o", "json"))["data"]
    credentials = {
        "fromEnv": False,
        "secretRef": {
            "secretName": "mlpipeline-minio-artifact",
            "accessKeyKey": "accesskey",
            "secretKeyKey": "secretkey",
        },
    }
    store = {
        "endpoint": host,
        "region": "us-east-1",
        "disableSSL": True,
        "forcePathStyle": True,
        "credentials": credentials,
    }
    settings = {
        "defaultPipelineRoot": f"s3://{bucket}/elsewhere",
        "providers": json.dumps({"s3": {"default": store}}),
    }
    try:
        cluster.kubectl("patch", *launcher, "--type=merge", "-p", json.dumps({"data": settings}))
        cluster.kubectl(
            *("wait", "--for=condition=Ready", "--timeout=600s", "-n", cluster.namespace),
            f"pod/{name}",
        )
        run = _run_taxi(cluster, *_FEW_STEPS)
        listing = cluster.in_pod(
            *(
                "python",
                "-c",
                "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read())",
            ),
            f"http://{host}/{bucket}?list-type=2&prefix=elsewhere/",
        )
    finally:
        data = {"data": {**dict.fromkeys(settings), **before}}
        cluster.kubectl("patch", *launcher, "--type=merge", "-p", json.dumps(data))
        cluster.kubectl(
            "delete", f"pod/{name}", f"service/{name}", "-n", cluster.namespace, "--now"
        )
    found = [one for one in re.findall("<Key>([^<]+)</Key>", listing) if run in one]
    need(found, f"the store has nothing of run {run}: {listing[-300:]}")
    return f"{len(found)} objects of run {run[:8]} at an S3 server of its own"
