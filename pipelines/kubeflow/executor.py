"""Inputs and outputs of a KFP task, from the executor input that KFP's launcher gives a container.

Input: the JSON that the launcher writes in place of `{{$}}` in the arguments. Output: the files
that the JSON names.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.components.errors import UsageError

# Mount points of KFP's artifact stores in a container.
_MOUNTED = {"gs://": "/gcs/", "s3://": "/s3/", "minio://": "/minio/"}


@dataclass(frozen=True)
class ExecutorInput:
    """Inputs and outputs of one task; artifacts are dicts in KFP's JSON form."""

    parameters: Mapping[str, Any]
    artifacts: Mapping[str, Mapping[str, Any]]
    outputs: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str) -> "ExecutorInput":
        """Parses KFP's JSON, in which any number may be a float."""
        try:
            given = json.loads(text)
            inputs = given.get("inputs", {})
        except (AttributeError, ValueError) as error:
            raise UsageError(
                f"expected KFP's executor input, a JSON object, got {text[:80]!r}; KFP's launcher "
                "fills it in when the component runs in a pipeline"
            ) from error
        artifacts = {
            name: group["artifacts"][0]
            for name, group in inputs.get("artifacts", {}).items()
            if group.get("artifacts")
        }
        return cls(
            _with_ints(inputs.get("parameterValues", {})), artifacts, given.get("outputs", {})
        )

    def input_path(self, name: str) -> Path | None:
        return local_path(self.artifacts[name]["uri"]) if name in self.artifacts else None

    def output_path(self, name: str) -> Path:
        """Returns the path of an output artifact, after creating its parent folder."""
        path = local_path(self._output(name)["uri"])
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write_metadata(self, metadata: Mapping[str, Mapping[str, Any]]) -> None:
        """Writes metadata of output artifacts; the entry `uri` also goes to the artifact's file."""
        answer = {}
        for name, values in metadata.items():
            output = self._output(name)
            # KFP shows an artifact only if its file exists.
            write_text(local_path(output["uri"]), str(values.get("uri", "")))
            shown = {"name": output.get("name", ""), "uri": output["uri"], "metadata": values}
            answer[name] = {"artifacts": [shown]}
        if answer:
            write_text(self.outputs["outputFile"], json.dumps({"artifacts": answer}))

    def _output(self, name: str) -> Mapping[str, Any]:
        artifact: Mapping[str, Any] = self.outputs["artifacts"][name]["artifacts"][0]
        return artifact


def local_path(uri: str) -> Path:
    for scheme, folder in _MOUNTED.items():
        if uri.startswith(scheme):
            return Path(folder + uri.removeprefix(scheme))
    return Path(uri)


def write_text(path: str | Path, text: str) -> None:
    """Writes a file and creates its parent folders."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")


def _with_ints(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_ints(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_ints(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
