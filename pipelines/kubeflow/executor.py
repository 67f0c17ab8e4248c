"""The messages between KFP's launcher and a container.

In: KFP's executor input, JSON that stands in the container's arguments in place of `{{$}}`. Out:
the files that it names.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.components.errors import UsageError

_NO_INPUT = (
    "expected KFP's executor input, a JSON object, got {!r}; KFP's launcher puts it there when the "
    "component runs in a pipeline"
)
# Where KFP's launcher mounts its artifact stores.
_MOUNTED = {"gs://": "/gcs/", "s3://": "/s3/", "minio://": "/minio/"}


@dataclass(frozen=True)
class ExecutorInput:
    """One task's inputs and outputs.

    Attributes:
        parameters: Values by name; those that were not given are missing.
        artifacts: KFP's description of each input artifact, by name.
        outputs: KFP's description of all that it expects.
    """

    parameters: Mapping[str, Any]
    artifacts: Mapping[str, Mapping[str, Any]]
    outputs: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str) -> "ExecutorInput":
        """From KFP's JSON, in which all numbers may be written as floats.

        Raises:
            UsageError: It is none; KFP's launcher alone puts it in place of `{{$}}`.
        """
        try:
            given = json.loads(text)
        except ValueError as error:
            raise UsageError(_NO_INPUT.format(text[:80])) from error
        if not isinstance(given, dict):
            raise UsageError(_NO_INPUT.format(text[:80]))
        inputs = given.get("inputs", {})
        artifacts = {
            name: group["artifacts"][0]
            for name, group in inputs.get("artifacts", {}).items()
            if group.get("artifacts")
        }
        return cls(_whole(inputs.get("parameterValues", {})), artifacts, given.get("outputs", {}))

    def input_path(self, name: str) -> Path | None:
        """Where an input artifact lies; None where it was not given."""
        return local_path(self.artifacts[name]["uri"]) if name in self.artifacts else None

    def output_path(self, name: str) -> Path:
        """Where an output artifact belongs; its folder is there."""
        path = local_path(self._output(name)["uri"])
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write_parameter(self, name: str, text: str) -> None:
        """Give an output parameter its value."""
        write_text(self.outputs["parameters"][name]["outputFile"], text)

    def write_metrics(self, name: str, values: Mapping[str, float]) -> None:
        """Give an output of type Metrics its values: they travel as its metadata."""
        metrics = self._output(name)
        # An artifact is shown once it exists.
        write_text(local_path(metrics["uri"]), "")
        shown = {"name": metrics.get("name", ""), "uri": metrics["uri"], "metadata": dict(values)}
        answer = {"artifacts": {name: {"artifacts": [shown]}}}
        write_text(self.outputs["outputFile"], json.dumps(answer))

    def _output(self, name: str) -> Mapping[str, Any]:
        artifact: Mapping[str, Any] = self.outputs["artifacts"][name]["artifacts"][0]
        return artifact


def local_path(uri: str) -> Path:
    """Where a container sees an artifact."""
    for scheme, folder in _MOUNTED.items():
        if uri.startswith(scheme):
            return Path(folder + uri.removeprefix(scheme))
    return Path(uri)


def write_text(path: str | Path, text: str) -> None:
    """Write a file and the folders above it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")


def _whole(value: Any) -> Any:
    """Values with the whole numbers among their floats as ints."""
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
