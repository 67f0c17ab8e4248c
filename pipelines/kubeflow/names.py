"""Maps names in TFX to names that Kubeflow and Kubernetes accept."""

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

Key = TypeVar("Key", str, tuple[str, str])

# KFP and Argo add a prefix and a suffix to a task's name; Kubernetes limits the full name to 63
# characters.
_MAX_TASK_CHARS = 40
_MAX_PIPELINE_CHARS = 63
# KFP's name of the outermost graph.
_RESERVED_TASKS = ("root",)
# Names of the inputs and outputs that the modules `pipeline_yaml` and `outputs` add to tasks.
_RESERVED = ("run_id", "metrics", "html")
# Component of a run's last task, and the task's environment variable for the webhook's address.
NOTIFY, WEBHOOK = "penstock.notify", "PENSTOCK_WEBHOOK"
_MAX_FIELD_CHARS = 60


def task_names(node_ids: Iterable[str]) -> dict[str, str]:
    """Returns a task name of `[a-z0-9-]` for each node id; clashing names get numbers."""
    return _unique({i: _task_name(i) for i in node_ids}, _RESERVED_TASKS, "-", _MAX_TASK_CHARS)


def field_names(wanted: Mapping[Key, str], taken: Iterable[str] = ()) -> dict[Key, str]:
    """Returns unique names of `[a-z0-9_]`, none of them in `taken`, for inputs or outputs."""
    texts = {key: _field_name(name) for key, name in wanted.items()}
    return _unique(texts, (*_RESERVED, *taken), "_", _MAX_FIELD_CHARS)


def artifact_names(outputs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Returns a name for each output of a task, where (node id, output key) identifies an output.

    The name is the output key. If the task runs several nodes, the node id comes before the key.
    """
    pairs = list(outputs)
    one_node = len({node_id for node_id, _ in pairs}) < 2
    return field_names({pair: pair[1] if one_node else "_".join(pair) for pair in pairs})


def pipeline_name(name: str) -> str:
    return _dashed(name)[:_MAX_PIPELINE_CHARS].strip("-") or "pipeline"


def _task_name(node_id: str) -> str:
    # KFP removes `comp-` and `exec-` anywhere in a name, so the hyphen after `comp` or `exec` is
    # removed here.
    name = re.sub(r"(comp|exec)-", r"\1", _dashed(node_id))
    return name[:_MAX_TASK_CHARS].strip("-") or "node"


def _field_name(name: str) -> str:
    text = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:_MAX_FIELD_CHARS]
    return text if text[:1].isalpha() else f"p_{text}"


def _dashed(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _unique(
    wanted: Mapping[Key, str], reserved: Iterable[str], delimiter: str, max_chars: int
) -> dict[Key, str]:
    # Names that need no change are assigned first. A name that is already taken gets a number.
    taken = set(reserved)
    given: dict[Key, str] = {}
    for original in sorted(wanted, key=lambda name: (wanted[name] != name, name)):
        name, number = wanted[original], 2
        while name in taken:
            suffix = f"{delimiter}{number}"
            name = wanted[original][: max_chars - len(suffix)].rstrip(delimiter) + suffix
            number += 1
        taken.add(name)
        given[original] = name
    return {original: given[original] for original in wanted}
