"""An image by digest, and placements whose volume is a folder of a test."""

from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.resources import Volume

IMAGE = "registry.example/penstock@sha256:" + "0" * 64


def on(folder):
    return Placement(
        pipeline_root=f"{folder}/runs",
        metadata_sqlite=f"{folder}/metadata.sqlite",
        volume=Volume(mount_path=str(folder)),
    )
