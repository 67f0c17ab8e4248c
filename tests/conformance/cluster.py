"""Reaches a cluster with kubectl, and runs Penstock's commands in a pod of Penstock's image."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
_POD = f"penstock-conformance-{os.getpid()}"
_RUN_ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


class NotThereError(Exception):
    """The cluster lacks something that a check needs."""


def need(true: object, message: str) -> None:
    """Fails a check with a message unless a condition holds."""
    if not true:
        raise AssertionError(message)


@dataclass(frozen=True)
class Cluster:
    """A cluster with Kubeflow Pipelines.

    Attributes:
        kubeconfig: File of kubectl's configuration; empty for kubectl's own default.
        namespace: Namespace in which KFP starts the pods of runs.
        kfp: Address of KFP's API, as seen from pods.
        image: Penstock's image, under the name by which nodes pull it.
        mariadb: MariaDB's image, by tag or digest.
    """

    kubeconfig: str
    namespace: str
    kfp: str
    image: str
    mariadb: str

    def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        """Returns kubectl's stdout, followed by its stderr if `check` is false.

        If `check` is true and kubectl fails, raises AssertionError with kubectl's message.
        """
        done = self._run(*arguments, stdin=stdin)
        if check:
            need(done.returncode == 0, f"kubectl {arguments[0]}: {done.stderr.strip()[-500:]}")
        return done.stdout if check else done.stdout + done.stderr

    def _run(self, *arguments: str, stdin: str) -> subprocess.CompletedProcess[str]:
        options = ["--kubeconfig", self.kubeconfig] if self.kubeconfig else []
        return subprocess.run(
            ["kubectl", *options, *arguments], input=stdin, capture_output=True, text=True
        )

    def objects(self, kind: str, *arguments: str) -> list[dict]:
        """Returns objects of a kind in the namespace; arguments such as `-l` select some."""
        text = self.kubectl("get", kind, "-n", self.namespace, "-o", "json", *arguments)
        return json.loads(text)["items"]

    def need_kind(self, crd: str) -> None:
        """Raises NotThereError if a custom resource definition is not installed."""
        if "NotFound" in self.kubectl("get", "crd", crd, check=False):
            raise NotThereError(f"no {crd}")

    def overlay(
        self, name: str, *, namespace: str, components: tuple[str, ...] = (), mariadb: bool = False
    ) -> str:
        """Returns the objects of an overlay as YAML; their images are `image` and `mariadb`."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(REPOSITORY / "k8s", f"{folder}/k8s")
            if mariadb:
                Path(folder, "mariadb.yaml").write_text(_mariadb())
            Path(folder, "kustomization.yaml").write_text(
                json.dumps(
                    {
                        "namespace": namespace,
                        "resources": [f"k8s/overlays/{name}", *["mariadb.yaml"] * mariadb],
                        "components": [f"k8s/components/{part}" for part in components],
                        "images": [
                            _replace("registry.example/penstock", self.image),
                            _replace("docker.io/library/mariadb", self.mariadb),
                        ],
                    }
                )
            )
            return self.kubectl("kustomize", folder)

    def install(self, name: str, *, namespace: str, components: tuple[str, ...] = ()) -> None:
        """Applies an overlay after removing its old job, because jobs cannot be changed."""
        job = ("job", "penstock-volume-check", "-n", namespace, "--ignore-not-found")
        self.kubectl("delete", *job)
        self.apply(self.overlay(name, namespace=namespace, components=components))

    def apply(self, objects: str, *options: str) -> str:
        return self.kubectl("apply", "-f", "-", *options, stdin=objects)

    def start_pod(self) -> None:
        """Starts the pod that runs Penstock's commands, with the volume of the runs."""
        quiet = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        token = {"audience": "pipelines.kubeflow.org", "path": "token"}
        volumes = {
            "/penstock": {"persistentVolumeClaim": {"claimName": "penstock"}},
            "/tmp": {"emptyDir": {}},
            "/token": {"projected": {"sources": [{"serviceAccountToken": token}]}},
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": _POD, "labels": {"penstock/run": "true"}},
            "spec": {
                "serviceAccountName": "penstock-runner",
                "restartPolicy": "Never",
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "runAsGroup": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "penstock",
                        "image": self.image,
                        "command": ["sleep", "infinity"],
                        "env": [{"name": "PENSTOCK_KFP_TOKEN_FILE", "value": "/token/token"}],
                        "securityContext": {**quiet, "readOnlyRootFilesystem": True},
                        "volumeMounts": [
                            {"name": f"v{number}", "mountPath": path}
                            for number, path in enumerate(volumes)
                        ],
                    }
                ],
                "volumes": [
                    {"name": f"v{number}", **volume}
                    for number, volume in enumerate(volumes.values())
                ],
            },
        }
        self.apply(json.dumps(pod), "-n", self.namespace)
        self.kubectl(
            *("wait", "--for=condition=Ready", "--timeout=600s", "-n", self.namespace),
            f"pod/{_POD}",
        )

    def stop_pod(self) -> None:
        self.kubectl("delete", "pod", _POD, "-n", self.namespace, "--ignore-not-found", "--now")

    def in_pod(self, *command: str, stdin: str = "", check: bool = True) -> str:
        """Returns stdout and stderr of a command in the pod."""
        pod = ("exec", "-i", "-n", self.namespace, _POD, "--", "sh", "-c", 'exec "$@" 2>&1', "sh")
        done = self._run(*pod, *command, stdin=stdin)
        text = done.stdout.strip() or done.stderr.strip()
        need(done.returncode == 0 or not check, f"{' '.join(command[:3])}: {text[-800:]}")
        return text

    def compile(self, pipeline: str, *options: str, placement: str, image: str = "") -> str:
        """Compiles a pipeline in the pod; returns the name of the file there."""
        self.in_pod("sh", "-c", "cat >/tmp/placement.yaml", stdin=placement)
        self.in_pod(
            *("penstock", "compile", pipeline, "--image", image or self.image, "--overwrite"),
            *("--placement", "/tmp/placement.yaml", "--out", "/tmp/compiled.yaml", *options),
            *([] if "@" in (image or self.image) else ["--allow-mutable-tag"]),
        )
        return "/tmp/compiled.yaml"

    def submit(self, file: str, *options: str, wait: bool = True) -> tuple[str, str]:
        """Submits a compiled file from the pod; returns the run's id and the output."""
        text = self.in_pod(
            *("penstock", "submit", file, "--host", self.kfp, *options),
            *("--service-account", "penstock-runner", *(["--wait"] if wait else [])),
            check=False,
        )
        found = _RUN_ID.search(text)
        need(found, f"penstock submit: {text.strip()[-500:]}")
        return str(found and found[0]), text

    def ask_kfp(self, path: str, method: str = "GET") -> dict:
        """Returns the answer of KFP's API to a request."""
        script = (
            "import sys, urllib.request as r; q = r.Request(sys.argv[1], method=sys.argv[2]); "
            "q.add_header('Authorization', 'Bearer ' + open('/token/token').read()); "
            "print(r.urlopen(q, timeout=60).read().decode())"
        )
        return json.loads(self.in_pod("python", "-c", script, self.kfp + path, method) or "{}")

    def executions(self, store: str) -> list[dict]:
        """Returns a store's executions, oldest first: node, run, state, inputs and outputs."""
        script = (REPOSITORY / "tests/containers/print_executions.py").read_text()
        text = self.in_pod("python", "-W", "ignore", "-", store, stdin=script)
        return json.loads(text.strip().splitlines()[-1])


def _mariadb() -> str:
    """Returns the MariaDB objects that users copy from docs/kubeflow/mariadb.md."""
    blocks = (REPOSITORY / "docs/kubeflow/mariadb.md").read_text().split("```")
    (block,) = (one for one in blocks if one.startswith("yaml\n# my-cluster/mariadb.yaml"))
    return block.partition("\n")[2]


def _replace(name: str, image: str) -> dict[str, str]:
    """Returns the entry of a kustomization that replaces an image's name and version."""
    by_digest = "@" in image
    new, _, version = image.rpartition("@" if by_digest else ":")
    return {"name": name, "newName": new, "digest" if by_digest else "newTag": version}


def states(executions: list[dict], run: str) -> dict[str, str]:
    """Returns the state of each node in a run of a store."""
    return {e["node"]: e["state"] for e in executions if e["run"] == run}
