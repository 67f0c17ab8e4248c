"""Placement of nodes on Kubernetes and their resources, kept outside the pipeline.

A YAML file has the options that differ from the defaults below, for example

    pipeline_root: /penstock/runs
    resources: {memory_request: 4Gi, memory_limit: 8Gi}
    nodes:
      Transform: {cpu_request: "4", cpu_limit: "8"}
    gpu:
      node_selector: {cloud.google.com/gke-accelerator: nvidia-l4}
      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.components.errors import UsageError
from penstock.components.limits import check_numbers
from penstock.components.plain import from_plain, override
from penstock.pipelines.config.overrides import load_overrides
from penstock.pipelines.kubeflow.resources import (
    Affinity,
    Gpu,
    MySqlSecret,
    Notify,
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
    """Placement of a pipeline's nodes on Kubernetes, and their resources.

    Attributes:
        pipeline_root: Folder on the volume, or a gs:// address, below which each pipeline has a
            folder with its name.
        volume: Volume that every node mounts; None if neither the pipeline root nor the metadata
            store is on a volume.
        metadata_sqlite: File of the metadata store, on the volume.
        metadata_mysql: MySQL server of the metadata store, used instead of the file.
        mysql_secret: Kubernetes secret with the login to that server.
        resources: Resources of each node.
        nodes: Changes to `resources` by node id.
        gpu: Accelerators of the Trainer and the Tuner; None trains on CPUs.
        workers: Number of pods of one JobSet that train together, each with the Trainer's
            resources. With 1, the Trainer trains alone, without a JobSet.
        queue: Kueue's LocalQueue that admits the workers; None starts them at once.
        fuse: Whether connected light nodes share a pod, for example schema, validator and gate
            nodes, or evaluation, check and push nodes. Nodes named in `nodes` or `gpu.nodes` get a
            pod of their own.
        retry: Retries of failed nodes.
        notify: Message with verdict and link at the end of each run; None sends none.
        run_as_user: User and group id of the containers; must equal those of the image, and must
            not be 0.
        affinity: Requirements on the Kubernetes nodes of every pod; all must hold.
        image_pull_secrets: Names of the secrets with the login to the image's registry.
        secret_env: Environment variables of every pod, by secret and its key:
            `{database: {user: PENSTOCK_SQL_USER, password: PENSTOCK_SQL_PASSWORD}}`.
        pod_labels: Labels of every pod.
        pod_annotations: Annotations of every pod, such as the one of the GCS FUSE driver.
        image_paths: Folders of the image that a pipeline may name. Any other path that exists on
            the compiling machine is rejected, unless it is on the volume or in a package.
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
    queue: str | None = None
    fuse: bool = True
    retry: Retry = field(default_factory=Retry)
    notify: Notify | None = None
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
        check_numbers(self, workers=1)
        if self.queue is not None:
            check_object_name("queue", self.queue)
        for name in self.image_pull_secrets:
            check_object_name("image_pull_secrets", name)
        for name, variables in self.secret_env.items():
            check_secret(f"secret_env.{name}", name, variables)
        check_texts("pod_labels", self.pod_labels)
        check_texts("pod_annotations", self.pod_annotations)

    def resources_of(self, node_id: str) -> Resources:
        changes = self.nodes.get(node_id, {})
        if not isinstance(changes, dict):
            raise UsageError(f"nodes.{node_id}: expected a group of options, got {changes!r}")
        return override(self.resources, changes, where=f"nodes.{node_id}")

    def has_workers(self, node_id: str, component: str) -> bool:
        """Returns whether a node runs in several worker pods."""
        if component.split(".")[-1] == "Tuner":  # its trials run one after another, in one pod
            return False
        return self.workers > 1 and (self.gpu or Gpu()).is_for(node_id, component)

    def alone(self) -> tuple[str, ...]:
        """Returns the nodes that must have a pod of their own."""
        return (*self.nodes, *(self.gpu.nodes if self.gpu else ()))

    def check_nodes(self, node_ids: Iterable[str]) -> None:
        """Raises UsageError if the placement names a node that the pipeline does not have."""
        known = list(node_ids)
        for name in self.alone():
            if name not in known:
                raise UsageError(
                    f"the placement names node {name!r}, which the pipeline does not have; "
                    f"choices: {', '.join(known)}"
                )

    def root_of(self, pipeline: str) -> str:
        return f"{self.pipeline_root.rstrip('/')}/{pipeline}"

    def sees(self, path: str) -> bool:
        """Returns whether a path exists in pods: on the volume, or below one of `image_paths`."""
        shared = [*self.image_paths, *([self.volume.mount_path] if self.volume else [])]
        return any(is_below(path, folder) for folder in shared)

    def check_on_volume(self, name: str, path: str) -> None:
        """Rejects a local path outside the volume: files that containers write there are lost."""
        if "://" in path:
            return
        if self.volume is None:
            raise UsageError(f"{name} is the path {path!r}, but there is no volume to hold it")
        if not f"{path}/".startswith(f"{self.volume.mount_path.rstrip('/')}/"):
            raise UsageError(
                f"{name} must lie below the volume at {self.volume.mount_path}, got {path!r}"
            )


def check_cache(config: Any, placement: Placement) -> None:
    """Raises UsageError if several workers have an input cache, which only one worker can use."""
    cache = getattr(getattr(config, "input", None), "cache", "none")
    if placement.workers > 1 and cache != "none":
        raise UsageError(
            f"input.cache {cache!r} is for one worker, the placement has {placement.workers}: "
            "add --set input.cache=none"
        )


def is_below(path: str, folder: str) -> bool:
    return f"{os.path.normpath(path)}/".startswith(f"{folder.rstrip('/')}/")


def read_placement(file: Path | None) -> Placement:
    """Reads a placement from a YAML file; without one returns the defaults.

    Raises:
        UsageError: The file cannot be read, or an entry is wrong.
    """
    return from_plain(Placement, load_overrides(file, []), where=str(file) if file else "")
