"""Recipe of a pipeline: the dotted path and the options from which its IR is built.

A compiled file contains the recipe. The first pod of a run builds the IR from the code in the
image, with the run's parameters, and writes it for the other pods. The graph of this IR must equal
the compiled graph.
"""

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any

from google.protobuf import json_format
from tfx.proto.orchestration import pipeline_pb2

from penstock.components.errors import UsageError
from penstock.components.plain import override
from penstock.pipelines.config.overrides import load_overrides
from penstock.pipelines.config.registry import PipelineFactory, find_pipeline
from penstock.pipelines.kubeflow import ir as irs
from penstock.pipelines.kubeflow.compiled_file import parse_value

ROOT = "root"
# Options that a run may change if the config has them and the config's `parameters` is empty.
_DEFAULT_OPTIONS = (
    *("data", "train.max_steps", "input.batch_size", "model.learning_rate"),
    "evaluation.thresholds",
)
_KINDS = (bool, int, float, str, dict, list)


@dataclass(frozen=True)
class Recipe:
    """Dotted path of a pipeline, changes of its config, and the compiled graph (`graph_of`).

    `root` is the value of the config's `root` in pods; None if the config has no `root`.
    """

    pipeline: str
    changes: Mapping[str, Any]
    graph: Mapping[str, str]
    root: str | None = None

    def to_text(self) -> str:
        """Returns the recipe as JSON; equal recipes have equal texts."""
        return json.dumps(asdict(self), sort_keys=True, default=str)

    @classmethod
    def from_text(cls, text: str) -> "Recipe":
        """Returns the recipe from the text that `to_text` returned."""
        return cls(**json.loads(text))

    def build(self, texts: Sequence[str]) -> tuple[pipeline_pb2.Pipeline, dict[str, Any]]:
        """Builds the IR; returns it, and the options that the `NAME=VALUE` texts changed.

        `NAME=` without a value leaves the option unchanged.
        """
        factory = find_pipeline(self.pipeline, self.changes)
        options = run_options(factory.config)
        changed = {}
        for text in texts:
            name, _, value = text.partition("=")
            like = options[name]
            if value and (parsed := parse_value(name, value, option_kind(like))) != like:
                changed[name] = parsed
        ir = build_ir(factory, _tree(changed, options), self.root)
        _check_same_graph(graph_of(ir), self.graph, changed)
        return ir, changed


def build_ir(
    factory: PipelineFactory, changes: Mapping[str, Any], root: str | None = None
) -> pipeline_pb2.Pipeline:
    """Builds an IR in which `root` replaces the root of the config.

    While TFX builds a pipeline, it creates the folder of the metadata store, which is below the
    root by default; but the root in the containers may not exist on this machine. So a temporary
    folder takes the place of the root during the build. The path of the temporary folder stays in
    the IR if `root` is None.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-compile-") as stand_in:
        if factory.config is not None:
            own = {ROOT: stand_in} if hasattr(factory.config, ROOT) else {}
            factory = replace(factory, config=override(factory.config, {**changes, **own}))
        ir = irs.compile_ir(factory.make())
    if root is None:
        return ir
    text = json_format.MessageToJson(ir).replace(stand_in, root)
    return json_format.Parse(text, pipeline_pb2.Pipeline())


def run_options(config: Any) -> dict[str, Any]:
    """Returns, by dotted name, the config options that a run may change, with their values."""
    named = getattr(config, "parameters", None)
    found = {name: _value(config, name) for name in (named or _DEFAULT_OPTIONS)}
    for name in named or ():
        if not isinstance(found[name], _KINDS):
            raise UsageError(f"parameters: {name} has no value that a run's form could show")
    return {
        name: json.loads(json.dumps(value))
        for name, value in found.items()
        if isinstance(value, _KINDS)
    }


def option_kind(value: Any) -> type:
    """Returns the type of a run parameter for an option with this value."""
    return next(kind for kind in _KINDS if isinstance(value, kind))


def graph_of(ir: pipeline_pb2.Pipeline) -> dict[str, str]:
    """Returns, by node id, a digest of type, upstream nodes, outputs and runtime parameters."""
    found = {
        node.node_info.id: [
            node.node_info.type.name,
            sorted(node.upstream_nodes),
            sorted(node.outputs.outputs),
            sorted(irs.runtime_parameters([node])),
        ]
        for node in irs.nodes(ir)
    }
    return {
        name: hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:8]
        for name, facts in found.items()
    }


def _check_same_graph(
    built: Mapping[str, str], compiled: Mapping[str, str], changed: Mapping[str, Any]
) -> None:
    differ = [node for node in {**compiled, **built} if compiled.get(node) != built.get(node)]
    if not differ:
        return
    if changed:
        raise UsageError(
            f"{', '.join(changed)}: changes node {differ[0]!r}, and a run cannot change the graph; "
            "compile the pipeline with --set"
        )
    raise UsageError(
        f"the code in the image has another node {differ[0]!r} than the compiled pipeline: compile "
        "it with the code that the image has"
    )


def _tree(values: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    texts = []
    for name, value in values.items():
        if isinstance(value, dict):
            value = {**dict.fromkeys(options[name]), **value}
        texts.append(f"{name}={json.dumps(value)}")
    return load_overrides(None, texts)


def _value(config: Any, name: str) -> Any:
    value = config
    for part in name.split("."):
        value = getattr(value, part, None)
    if is_dataclass(value):
        return None
    return list(value) if isinstance(value, tuple) else value
