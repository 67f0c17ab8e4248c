"""Plain Kubeflow components: each runs one command of `penstock`, with `--json`, in a container.

The component's artifacts become paths on the command line, its parameter `arguments` becomes the
flags, and the printed figures become KFP's metrics. A pipeline that loads a component's file by
`kfp.components.load_component_from_file` needs neither this package nor TFX.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.components.errors import UsageError
from penstock.components.files.commit import attempt_file
from penstock.pipelines.kubeflow.executor import ExecutorInput


@dataclass(frozen=True)
class Command:
    """A `penstock` command that a component runs, with the arguments for its artifacts.

    Attributes:
        about: Description of the component in KFP.
        takes: Command line arguments for each input artifact; "{}" stands for its path.
        gives: Command line arguments for each output artifact; "{}" stands for its path.
        arguments: Default of the parameter `arguments`.
        optional: Input artifacts that may be missing.
    """

    about: str
    takes: Mapping[str, tuple[str, ...]]
    gives: Mapping[str, tuple[str, ...]]
    arguments: tuple[str, ...] = ()
    optional: frozenset[str] = frozenset()

    def words(self, task: ExecutorInput) -> Iterator[str]:
        """Yields the command line arguments: flags, then input and output artifacts."""
        yield from task.parameters.get("arguments", self.arguments)
        for name, words in self.takes.items():
            path = task.input_path(name)
            if path is not None:
                yield from (word.format(path) for word in words)
            elif name not in self.optional:
                raise UsageError(f"give the artifact {name}")
        for name, words in self.gives.items():
            yield from (word.format(task.output_path(name)) for word in words)


_PATH = ("{}",)
_REPLACED = ("--overwrite", "{}")  # a retry replaces the files of the failed attempt
_SCHEMA = {"schema": ("--schema", "{}")}
COMMANDS = {
    "ingest": Command(
        "Turn the artifact data, or the inputs that arguments name, into sharded TFRecords.",
        {**_SCHEMA, "data": _PATH},
        {"examples": _REPLACED},
        optional=frozenset({"schema", "data"}),
    ),
    "pack": Command(
        "Turn row Examples, from ingest or any ExampleGen, into packed records to train from.",
        {**_SCHEMA, "examples": _PATH},
        {"packed": _REPLACED},
        optional=frozenset({"schema"}),
    ),
    "verify": Command(
        "Check shards against their manifest, and the checksums of all records.",
        {"examples": _PATH},
        {},
    ),
    "export": Command(
        "Write the rows of shards as Parquet or ArrayRecord.",
        {"shards": _PATH},
        {"exported": _PATH},
        arguments=("--to", "parquet"),
    ),
    "predict": Command(
        "Predict every row of a table, or every image, into a Parquet file in a folder.",
        {"model": _PATH, "data": _PATH},
        {"predictions": ("--overwrite", "--out", "{}/predictions.parquet")},
    ),
    "evaluate": Command(
        "Judge predictions, such as those of predict: metrics, intervals, slices and thresholds.",
        {"predictions": _PATH},
        {"evaluation": ("--out", "{}")},
    ),
}


def write_component(name: str, out: Path, *, image: str) -> None:
    """Writes a component of `COMMANDS` to a YAML file, which appears whole or not at all."""
    from kfp import compiler, dsl

    from penstock.pipelines.kubeflow.pipeline_yaml import EXECUTOR_INPUT, set_signature

    command = COMMANDS[name]

    def container(*_: Any) -> Any:
        words = ["penstock", "component", name]
        return dsl.ContainerSpec(image=image, command=words, args=[EXECUTOR_INPUT])

    artifacts = {"model": dsl.Model, "schema": dsl.Artifact}
    types = {key: dsl.Input[artifacts.get(key, dsl.Dataset)] for key in command.takes}
    types |= {key: dsl.Output[dsl.Dataset] for key in command.gives}
    types |= {"metrics": dsl.Output[dsl.Metrics], "arguments": list}
    optional = dict.fromkeys(command.optional)
    set_signature(container, name, types, {**optional, "arguments": list(command.arguments)})
    container.__doc__ = (
        f"{command.about}\n\nArgs:\n    arguments: Flags of `penstock {name}`, one word each."
    )
    with attempt_file(out) as file:
        compiler.Compiler().compile(dsl.container_component(container), str(file))


def figures_of(report: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yields the figures of a JSON report by name; names of nested reports are prefixes."""
    for name, value in report.items():
        if isinstance(value, dict):
            yield from figures_of(value, f"{prefix}{name}_")
        elif (
            isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        ):  # KFP's JSON cannot contain NaN or infinity
            yield f"{prefix}{name}", value
