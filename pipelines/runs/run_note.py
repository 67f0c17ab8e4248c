"""The note of a run: what the metadata store does not know by itself, kept in it.

TFX keeps neither why a node failed, nor which nodes were never reached, nor with which command,
options and packages the run was made. `penstock run` notes it as a property of the run's context.
"""

import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from penstock.components.files.secrets import hide_secret
from penstock.pipelines.runs.run_record import RunRecord, note_of_run

PROPERTY = "penstock_note"
_PACKAGES = (
    "penstock",
    "tfx",
    "tensorflow",
    "keras",
    "tensorflow-transform",
    "tensorflow-data-validation",
    "tensorflow-model-analysis",
    "ml-metadata",
    "apache-beam",
    "pyarrow",
    "numpy",
    "protobuf",
)
_GIT_SECONDS = 2.0


@dataclass(frozen=True)
class RunNote:
    """What was noted of one run.

    Attributes:
        command: The command that made it, as a shell takes it.
        config: The pipeline's options, as JSON values.
        upstream: Each node of the pipeline, with the nodes that it waits for.
        error: Why the run stopped; the empty string where it did not.
        versions: Of Python and the packages that count, by name.
        code: The commit of the user's code, `-dirty` after it where there were changes; the
            empty string where it is not under git.
    """

    command: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    upstream: Mapping[str, Sequence[str]] = field(default_factory=dict)
    error: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    code: str = ""
    machine: str = ""


def take_note(command: Sequence[str], config: Any, pipeline: Any, *, error: str = "") -> RunNote:
    """A note of the run that was just made in this process, and why it stopped, if it did."""
    return RunNote(
        command=shlex.join(_without_secrets(command)),
        config=_hidden("", asdict(config)) if config is not None else {},
        upstream={c.id: sorted(u.id for u in c.upstream_nodes) for c in pipeline.components},
        error=error,
        versions=_versions(),
        code=_commit(Path.cwd()),
        machine=f"{platform.system()} {platform.machine()}",
    )


def write_note(store: Any, run_id: str, note: RunNote) -> None:
    """Keep the note with its run in an open `ml_metadata.MetadataStore`."""
    note_of_run(store, run_id, PROPERTY, json.dumps(asdict(note), default=str))


def read_note(run: RunRecord) -> RunNote:
    """The note of a run; where none was taken, as on Kubeflow, only what its nodes noted."""
    text = run.properties.get(PROPERTY)
    if text:
        return RunNote(**json.loads(text))
    last_tries = {node.node: node for node in run.nodes}.values()
    return RunNote(error=next((node.error for node in last_tries if node.error), ""))


def _without_secrets(command: Sequence[str]) -> list[str]:
    """The arguments, each `--set key=value` looked at by its key."""
    shown = []
    for argument in command:
        key, equals, value = argument.partition("=")
        shown.append(f"{key}={hide_secret(key, value)}" if equals else hide_secret("", argument))
    return shown


def _hidden(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _hidden(str(key), part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_hidden(name, part) for part in value]
    return hide_secret(name, value) if isinstance(value, str) else value


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _commit(folder: Path) -> str:
    """The commit of a folder under git, by git itself."""
    command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty"]
    try:
        done = subprocess.run(
            [*command, "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def this_command() -> list[str]:
    """The command of this process, its program by name alone."""
    return [Path(sys.argv[0]).name, *sys.argv[1:]]
