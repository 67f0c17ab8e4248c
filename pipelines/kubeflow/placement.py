"""The placement table: where nodes run on Kubernetes and what they may use, outside the DAG.

A YAML file says what differs from the defaults below, for example

    pipeline_root: /penstock/runs
    resources: {memory_request: 4Gi, memory_limit: 8Gi}
    nodes:
      Transform: {cpu_request: "4", cpu_limit: "8"}
    gpu:
      node_selector: {cloud.google.com/gke-accelerator: nvidia-l4}
      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from penstock.components.errors import UsageError
from penstock.components.plain import from_plain, override
from penstock.pipelines.config.overrides import load_overrides
from penstock.pipelines.kubeflow.resources import (
    Affinity,
    Gpu,
    MySqlSecret,
    Resources,
    Retry,
    Volume,
    check_object_name,
    check_secret,
    check_texts,
)
from penstock.pipelines.runs.metadata_store import MySqlStore


@dataclass(frozen=True)
class Placement:
    """Where a pipeline's nodes run on Kubernetes, and what they may use.

    Attributes:
        pipeline_root: Folder on the volume, or a gs:// address, below which each pipeline has
            a folder of its name.
        volume: The claim that every node mounts; none where root and metadata are elsewhere.
        metadata_sqlite: File of the metadata store, on the volume.
        metadata_mysql: The server that keeps it instead.
        mysql_secret: The login to that server.
        resources: What each node gets.
        nodes: By a node's id, what differs for it from `resources`.
        gpu: What the Trainer gets on top; None trains on processors.
        workers: Pods that train together, each with what the Trainer gets, by Kubeflow's Training
            Operator; of 1 the Trainer trains itself.
        retry: What happens when a node fails.
        run_as_user: User and group id of the containers, not 0; the image's own.
        affinity: What the Kubernetes nodes of every pod must have, all of it.
        image_pull_secrets: Names of the secrets that log in to the image's registry.
        secret_env: By a secret's name, the environment variable that each of its keys becomes in
            every pod: `{database: {user: PENSTOCK_SQL_USER, password: PENSTOCK_SQL_PASSWORD}}`.
        pod_labels: Labels of every pod.
        pod_annotations: Its annotations, as the GCS FUSE driver wants one.
        image_paths: Folders of the image that a pipeline may name though the volume lacks them.
    """

    pipeline_root: str = "/penstock/runs"
    volume: Volume | None = field(default_factory=Volume)
    metadata_sqlite: str = "/penstock/metadata.sqlite"
    metadata_mysql: MySqlStore | None = None
    mysql_secret: MySqlSecret = field(default_factory=MySqlSecret)
    resources: Resources = field(default_factory=Resources)
    nodes: dict = field(default_factory=dict)
    gpu: Gpu | None = None
    workers: int = 1
    retry: Retry = field(default_factory=Retry)
    run_as_user: int = 65532
    affinity: tuple[Affinity, ...] = ()
    image_pull_secrets: tuple[str, ...] = ()
    secret_env: dict = field(default_factory=dict)
    pod_labels: dict = field(default_factory=dict)
    pod_annotations: dict = field(default_factory=dict)
    image_paths: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.check_on_volume("pipeline_root", self.pipeline_root)
        if self.metadata_mysql is None:
            self.check_on_volume("metadata_sqlite", self.metadata_sqlite)
            if "://" in self.metadata_sqlite:
                raise UsageError(
                    f"metadata_sqlite must be a file on the volume, got {self.metadata_sqlite!r}"
                )
        for node_id in self.nodes:
            self.resources_of(str(node_id))
        if self.run_as_user < 1:
            raise UsageError(f"run_as_user must be 1 or more, not root, got {self.run_as_user}")
        if self.workers < 1:
            raise UsageError(f"workers must be 1 or more, got {self.workers}")
        for name in self.image_pull_secrets:
            check_object_name("image_pull_secrets", name)
        for name, variables in self.secret_env.items():
            check_secret(f"secret_env.{name}", name, variables)
        check_texts("pod_labels", self.pod_labels)
        check_texts("pod_annotations", self.pod_annotations)
        for path in self.image_paths:
            if not path.startswith("/"):
                raise UsageError(f"image_paths must be absolute paths, got {path!r}")

    def resources_of(self, node_id: str) -> Resources:
        """What that node gets."""
        changes = self.nodes.get(node_id, {})
        if not isinstance(changes, dict):
            raise UsageError(f"nodes.{node_id}: expected a group of options, got {changes!r}")
        return override(self.resources, changes, where=f"nodes.{node_id}")

    def has_workers(self, node_id: str, component: str) -> bool:
        """Whether several pods do that node's work."""
        return self.workers > 1 and (self.gpu or Gpu()).is_for(node_id, component)

    def check_nodes(self, node_ids: Iterable[str]) -> None:
        """Refuse a table that names nodes that the pipeline does not have."""
        known = list(node_ids)
        for name in (*self.nodes, *(self.gpu.nodes if self.gpu else ())):
            if name not in known:
                raise UsageError(
                    f"the placement names node {name!r}, which the pipeline does not have; "
                    f"choices: {', '.join(known)}"
                )

    def root_of(self, pipeline: str) -> str:
        """Where a pipeline of that name keeps its artifacts."""
        return f"{self.pipeline_root.rstrip('/')}/{pipeline}"

    def check_on_volume(self, name: str, path: str) -> None:
        """Refuse a path that the containers would write to and lose.

        Raises:
            UsageError: It is neither below the volume nor an address.
        """
        if "://" in path:
            return
        if self.volume is None:
            raise UsageError(f"{name} is the path {path!r}, but there is no volume to hold it")
        if not f"{path}/".startswith(f"{self.volume.mount_path.rstrip('/')}/"):
            raise UsageError(
                f"{name} must lie below the volume at {self.volume.mount_path}, got {path!r}"
            )


def read_placement(file: Path | None) -> Placement:
    """The table of a YAML file; the defaults without one.

    Raises:
        UsageError: The file cannot be read, or an entry does not fit.
    """
    return from_plain(Placement, load_overrides(file, []), where=str(file) if file else "")
