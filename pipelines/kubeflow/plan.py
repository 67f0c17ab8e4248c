"""A pipeline as tasks for Kubeflow, in plain values."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Parameter:
    """A runtime parameter of the pipeline.

    Attributes:
        name: Its name in TFX.
        kfp_name: Its name in Kubeflow, `[a-z0-9_]`.
        kind: int, float or str.
        default: Its default; None where it must be given.
    """

    name: str
    kfp_name: str
    kind: type
    default: int | float | str | None


# Where a run's data is in place of where the pipeline says; of tasks that read files, see `spans`.
SPAN_FROM = Parameter("{span_from}", "span_from", str, "")


@dataclass(frozen=True)
class Task:
    """A node as a container task.

    Attributes:
        node_id: Its id in TFX.
        name: Its name in Kubeflow, `[a-z0-9-]`.
        component: Dotted path of the component's class or function.
        inline_ir: Its part of the IR, see `ir.encode`.
        parameters: The runtime parameters that it uses.
        upstream: Names of the tasks that come before it.
        views: What a person sees of it in Kubeflow's UI, of `kubeflow_outputs.VIEWS`.
    """

    node_id: str
    name: str
    component: str
    inline_ir: str
    parameters: tuple[Parameter, ...]
    upstream: tuple[str, ...]
    views: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """All tasks, in an order in which they can run.

    Attributes:
        name: The pipeline's name in Kubeflow.
        packages: The user's own packages that the image must have.
        ir: The IR of all of them, see `ir.encode`.
        parts: `ir` in pieces, where it is carried as `carried.py` says; else the tasks have theirs.
    """

    name: str
    parameters: tuple[Parameter, ...]
    tasks: tuple[Task, ...]
    packages: tuple[str, ...] = ()
    ir: str = ""
    parts: tuple[str, ...] = ()
