"""Recipe of a pipeline: the dotted path and the options from which its IR is built.

The IR is built when the pipeline is compiled, and again in the first pods of a run whose parameters
change options of the config; the graph must then be the compiled one.
"""

import dataclasses
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any

from tfx.proto.orchestration import pipeline_pb2

from penstock.components.errors import UsageError
from penstock.components.plain import override
from penstock.pipelines.config.overrides import load_overrides
from penstock.pipelines.config.registry import PipelineFactory, find_pipeline
from penstock.pipelines.kubeflow import ir as irs
from penstock.pipelines.kubeflow.package_paths import find_packages, mark_packages

ROOT = "root"
# Options that a run may change if the config has them and its `parameters` is empty.
_DEFAULT_OPTIONS = (
    *("data", "train.max_steps", "input.batch_size", "model.learning_rate"),
    "evaluation.thresholds",
)
_KINDS = (bool, int, float, str, dict, list)


@dataclass(frozen=True)
class Recipe:
    """Dotted path of a pipeline, changes of its config, and values of options that runs may change.

    `root` is the root of the config inside pods; None if the config has no root.
    """

    pipeline: str
    changes: Mapping[str, Any]
    root: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to_text(self) -> str:
        """Returns the recipe as JSON with portable paths; equal recipes have equal texts."""
        return mark_packages(json.dumps(asdict(self), sort_keys=True, default=str))

    @classmethod
    def from_text(cls, text: str) -> "Recipe":
        """Returns the recipe that `to_text` wrote, with the package paths of this machine."""
        return cls(**json.loads(find_packages(text)))

    def changed(self, texts: Sequence[str]) -> dict[str, Any]:
        """Returns the options in `NAME=VALUE` texts whose values differ from the compiled ones."""
        given = {}
        for text in texts:
            name, _, value = text.partition("=")
            given[name] = _parse(name, find_packages(value), self.options[name])
        return {name: value for name, value in given.items() if value != self.options[name]}

    def build(self, values: Mapping[str, Any]) -> pipeline_pb2.Pipeline:
        """Builds the IR with other values of options."""
        ir, stand_in = build_ir(find_pipeline(self.pipeline, self.changes), self._tree(values))
        if self.root is not None:
            root = self.root
            irs.change_texts(ir, lambda text: text.replace(stand_in, root))
        return ir

    def _tree(self, values: Mapping[str, Any]) -> dict[str, Any]:
        texts = []
        for name, value in values.items():
            if isinstance(value, dict):
                value = {**dict.fromkeys(self.options[name]), **value}
            texts.append(f"{name}={json.dumps(value)}")
        return load_overrides(None, texts)


def build_ir(
    factory: PipelineFactory, changes: Mapping[str, Any]
) -> tuple[pipeline_pb2.Pipeline, str]:
    """Builds an IR; in its texts, the returned temporary folder stands for the pipeline's root.

    While TFX builds a pipeline, it creates the folder of the metadata store; the root in the
    containers may not exist on this machine.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-compile-") as stand_in:
        if factory.config is not None:
            root = {ROOT: stand_in} if hasattr(factory.config, ROOT) else {}
            factory = replace(factory, config=override(factory.config, {**changes, **root}))
        return irs.compile_ir(factory.make()), stand_in


def run_options(config: Any) -> dict[str, Any]:
    """Returns the options of a config that runs may change, by dotted name, with their values."""
    named = getattr(config, "parameters", None)
    found = {name: _value(config, name) for name in (named or _DEFAULT_OPTIONS)}
    for name in named or ():
        if not isinstance(found[name], _KINDS):
            raise UsageError(f"parameters: {name} has no value that a run's form could show")
    return {
        name: json.loads(mark_packages(json.dumps(value)))
        for name, value in found.items()
        if isinstance(value, _KINDS)
    }


def option_kind(value: Any) -> type:
    """Returns the type of a run parameter for an option with this value."""
    return next(kind for kind in _KINDS if isinstance(value, kind))


def check_same_graph(
    built: pipeline_pb2.Pipeline, compiled: pipeline_pb2.Pipeline, options: Sequence[str]
) -> None:
    """Raises UsageError if the graph of an IR built in a run differs from the compiled graph."""
    before, after = _graph(compiled), _graph(built)
    for node_id in before | after:
        if before.get(node_id) != after.get(node_id):
            how = "adds" if node_id not in before else "changes"
            how = how if node_id in after else "removes"
            raise UsageError(
                f"{', '.join(options)}: {how} node {node_id!r}, and a run cannot change the graph; "
                "compile the pipeline with --set, in the image that runs it"
            )


def _graph(ir: pipeline_pb2.Pipeline) -> dict[str, Any]:
    return {
        node.node_info.id: (
            node.node_info.type.name,
            sorted(node.upstream_nodes),
            sorted(node.outputs.outputs),
            sorted(irs.runtime_parameters(node)),
        )
        for node in irs.nodes(ir)
    }


def _value(config: Any, name: str) -> Any:
    value = config
    for part in name.split("."):
        value = getattr(value, part, None)
    if is_dataclass(value):
        return None
    return list(value) if isinstance(value, tuple) else value


def _parse(name: str, text: str, like: Any) -> Any:
    """Parses KFP's text of a parameter, in which every number is a double."""
    if isinstance(like, str):
        return text
    try:
        value = json.loads(text.lower() if isinstance(like, bool) else text)
        if isinstance(like, int) and not isinstance(like, bool) and value == int(value):
            value = int(value)
        if isinstance(value, option_kind(like)) or isinstance(like, float):
            return float(value) if isinstance(like, float) else value
    except (TypeError, ValueError):
        pass
    raise UsageError(f"{name}: expected a value like {like!r}, got {text!r}")
