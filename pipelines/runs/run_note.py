"""The note of a run: facts that TFX does not record, stored in its metadata store.

TFX does not record why a node failed, which nodes were never reached, or the command, options and
packages of the run. `penstock run` adds these as a property of the run's context.
"""

import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from penstock import __version__
from penstock.components.files.secrets import hide_secret
from penstock.pipelines.runs.run_record import RunRecord, note_of_run

PROPERTY = "penstock_note"
_PACKAGES = (
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
    """Note of a run: its command quoted for a shell, its options, the upstream nodes of each node.

    `code` is the git commit of the working directory, followed by `-dirty` if there were changes;
    it is empty outside a git repository.
    """

    command: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    upstream: Mapping[str, Sequence[str]] = field(default_factory=dict)
    error: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    code: str = ""
    machine: str = ""


def take_note(command: Sequence[str], config: Any, pipeline: Any, *, error: str = "") -> RunNote:
    """Returns a note of the run that has just ended in this process, with its error, if any."""
    return RunNote(
        command=shlex.join(_without_secrets(command)),
        config=config_of(config),
        upstream={c.id: sorted(u.id for u in c.upstream_nodes) for c in pipeline.components},
        error=error,
        versions=_versions(),
        code=_commit(Path.cwd()),
        machine=f"{platform.system()} {platform.machine()}",
    )


def config_of(config: Any) -> Any:
    """Returns the options of a config in the form of the note, with secrets redacted."""
    return redacted("", asdict(config)) if config is not None else {}


def write_note(store: Any, run_id: str, note: RunNote) -> None:
    """Stores the note with its run in an open `ml_metadata.MetadataStore`."""
    note_of_run(store, run_id, PROPERTY, json.dumps(asdict(note), default=str))


def read_note(run: RunRecord) -> RunNote:
    """Reads the note of a run; without a note, as on Kubeflow, returns only a node's error."""
    text = run.properties.get(PROPERTY)
    if text:
        return RunNote(**json.loads(text))
    last_tries = {node.node: node for node in run.nodes}.values()
    return RunNote(error=next((node.error for node in last_tries if node.error), ""))


def _without_secrets(command: Sequence[str]) -> list[str]:
    shown = []
    for argument in command:
        key, equals, value = argument.partition("=")
        shown.append(f"{key}={hide_secret(key, value)}" if equals else hide_secret("", argument))
    return shown


def redacted(name: str, value: Any, *, parse: bool = False) -> Any:
    """Returns the value of an option without secrets; with `parse`, JSON in texts is parsed."""
    if parse and isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, Mapping):
        return {key: redacted(str(key), part, parse=parse) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(name, part, parse=parse) for part in value]
    return hide_secret(name, value) if isinstance(value, str) else value


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "penstock": __version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _commit(folder: Path) -> str:
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
    """Returns the command line of this process, with the program's name but not its path."""
    return [Path(sys.argv[0]).name, *sys.argv[1:]]
