# The names of `penstock.kubeflow` and the modules that define them.

from .pipelines.kubeflow.placement import Placement, read_placement

__all__ = [
    "Placement",
    "read_placement",
]
