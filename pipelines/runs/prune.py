"""Frees disk space of old runs: finds artifacts on which no kept run depends, and removes them.

Input: an open metadata store. Output: a `PrunePlan`. `prune` then removes the files, and marks
their artifacts `DELETED` in the store, so that TFX's cache and resolvers skip them. MLMD removes no
record: a pruned run is still listed with its nodes and result.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ml_metadata.proto import metadata_store_pb2 as mlmd

from penstock.components.files.remote import find_below, is_remote
from penstock.pipelines.runs.run_record import NodeRun, RunRecord, all_runs, is_set

# Artifacts marked for deletion count as present, so that after an interrupted removal the next one
# removes the remaining files.
_PRESENT = (mlmd.Artifact.LIVE, mlmd.Artifact.MARKED_FOR_DELETION)


@dataclass(frozen=True)
class PrunePlan:
    """Removable artifacts, removable folders of failed attempts, and their size in bytes.

    `runs` are the ids of the runs that lose artifacts, the newest first; `kept` are the ids of the
    kept runs.
    """

    runs: tuple[str, ...]
    artifacts: tuple[mlmd.Artifact, ...]
    leftovers: tuple[str, ...]
    size: int
    kept: tuple[str, ...]


def plan_prune(store: Any, *, keep: int, interrupted: bool = False) -> PrunePlan:
    """Finds artifacts that the kept runs of each pipeline do not need.

    For each pipeline, the kept runs are the newest `keep` runs, active runs (unless they are known
    to be `interrupted`) and the newest run that blessed a model. An artifact is also kept if an
    artifact of a kept run was made from it. Never removes files that a user imported, or models in
    a serving folder.
    """
    runs = list(all_runs(store))
    kept = _kept(runs, keep, interrupted)
    needed = _with_origins(kept, runs)
    gone: dict[int, mlmd.Artifact] = {}
    leftovers: list[str] = []
    losing: list[str] = []
    for run in (run for run in runs if run not in kept):
        own = [artifact for node in run.nodes for artifact in _own(node)]
        found = {one.id: one for one in own if one.id not in needed | gone.keys()}
        left = list(_leftovers(run, runs))
        gone |= found
        leftovers += left
        if found or left:
            losing.append(run.run_id)
    folders = [*(artifact.uri for artifact in gone.values()), *leftovers]
    return PrunePlan(
        tuple(losing),
        tuple(gone.values()),
        tuple(leftovers),
        sum(map(folder_bytes, folders)),
        tuple(run.run_id for run in kept),
    )


def prune(store: Any, plan: PrunePlan) -> None:
    """Removes the artifacts of a plan; call it only while no run of the store is active."""
    artifacts = list(plan.artifacts)
    # The artifacts are marked before their files are removed, so that the cache uses no
    # half-removed artifact.
    _set_state(store, artifacts, mlmd.Artifact.MARKED_FOR_DELETION)
    fileio = _fileio()
    for folder in (*(artifact.uri for artifact in artifacts), *plan.leftovers):
        if fileio.isdir(folder):
            fileio.rmtree(folder)
    _set_state(store, artifacts, mlmd.Artifact.DELETED)


def new_artifacts(run: RunRecord) -> list[mlmd.Artifact]:
    """Returns the existing artifacts that a run made and did not take from the cache."""
    return [artifact for node in run.nodes if node.state == "done" for artifact in _own(node)]


def folder_bytes(folder: str) -> int:
    """Returns the size of all files below a folder, local or remote; 0 if it is missing."""
    if is_remote(folder):
        return sum(file.size or 0 for file in find_below(folder))
    paths = (os.path.join(at, name) for at, _, files in os.walk(folder) for name in files)
    return sum(os.lstat(path).st_size for path in paths)


def _kept(runs: Sequence[RunRecord], keep: int, interrupted: bool) -> list[RunRecord]:
    kept: list[RunRecord] = []
    with_blessing: set[str] = set()
    for run in runs:
        newer = sum(other.pipeline == run.pipeline for other in kept)
        is_active = not interrupted and any(node.state == "running" for node in run.nodes)
        # The next run's gate measures drift from the statistics of the newest run that blessed a
        # model.
        blesses = is_set(run.artifact("ModelBlessing"), "blessed")
        if newer < keep or is_active or (blesses and run.pipeline not in with_blessing):
            kept.append(run)
        if blesses:
            with_blessing.add(run.pipeline)
    return kept


def _with_origins(kept: Sequence[RunRecord], runs: Sequence[RunRecord]) -> set[int]:
    """Returns the ids of the kept runs' artifacts and of all artifacts they were made from."""
    made_from: dict[int, set[int]] = {}
    for node in (node for run in runs for node in run.nodes):
        for artifact in node.outputs:
            made_from.setdefault(artifact.id, set()).update(a.id for a in node.inputs)
    found: set[int] = set()
    waiting = {a.id for run in kept for node in run.nodes for a in (*node.inputs, *node.outputs)}
    while waiting:
        artifact_id = waiting.pop()
        found.add(artifact_id)
        waiting |= made_from.get(artifact_id, set()) - found
    return found


def _own(node: NodeRun) -> list[mlmd.Artifact]:
    """Returns undeleted outputs in the folders that TFX creates, `ROOT/NODE/KEY/EXECUTION`."""
    found = []
    for artifact in node.outputs:
        parts = artifact.uri.rstrip("/").split("/")
        is_own = len(parts) > 3 and parts[-3] == node.node and parts[-1].isdecimal()
        if is_own and artifact.state in _PRESENT:
            found.append(artifact)
    return found


def _leftovers(run: RunRecord, runs: Sequence[RunRecord]) -> Iterator[str]:
    nodes = (node for other in runs if other.pipeline == run.pipeline for node in other.nodes)
    roots = {one.uri.rstrip("/").rsplit("/", 3)[0] for node in nodes for one in _own(node)}
    for node in run.nodes:
        if node.state in ("failed", "running", "cancelled"):
            for root in sorted(roots):
                for below in ("*", ".system/*"):
                    yield from _fileio().glob(f"{root}/{node.node}/{below}/{node.execution_id}")


def _fileio() -> Any:
    from tfx.dsl.io import fileio  # imports TensorFlow, which a list of runs does not need

    return fileio


def _set_state(store: Any, artifacts: Sequence[mlmd.Artifact], state: int) -> None:
    for artifact in artifacts:
        artifact.state = state
    if artifacts:
        store.put_artifacts(artifacts)
