"""A pipeline like a user's: importer, resolver, condition, runtime parameters, odd ids.

Files in the folder that the environment variable `SMALL_PIPELINE_FAULTS` names tell the nodes how
to fail.
"""

import os
import time
from pathlib import Path

from tfx.dsl.component.experimental.annotations import (
    InputArtifact,
    OutputArtifact,
    OutputDict,
    Parameter,
)
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.components.common.importer import Importer
from tfx.dsl.components.common.resolver import Resolver
from tfx.dsl.experimental.conditionals.conditional import Cond
from tfx.dsl.input_resolution.strategies.latest_artifact_strategy import LatestArtifactStrategy
from tfx.orchestration.data_types import RuntimeParameter
from tfx.orchestration.pipeline import Pipeline
from tfx.types import Channel
from tfx.types.standard_artifacts import Examples, Model, Schema


def _fault(name: str) -> bool:
    return Path(os.environ.get("SMALL_PIPELINE_FAULTS", "/nonexistent"), name).exists()


@component
def make_numbers(
    schema: InputArtifact[Schema],
    numbers: OutputArtifact[Examples],
    how_many: Parameter[int],
    scale: Parameter[float],
    note: Parameter[str] = "",
) -> OutputDict(total=int):
    del schema, note
    lines = [str(i * scale) for i in range(how_many)]
    Path(numbers.uri, "numbers.txt").write_text("\n".join(lines))
    return {"total": how_many}


@component
def Trainer(  # noqa: N802  # the GPU is for nodes whose class has this name
    numbers: InputArtifact[Examples],
    model: OutputArtifact[Model],
):
    part = Path(model.uri, "part")
    part.write_text("half of a model")
    if _fault("hang"):
        Path(os.environ["SMALL_PIPELINE_FAULTS"], "hanging").touch()
        time.sleep(600)
    if _fault("fail"):
        raise ValueError("the weights are NaN\nat step 7")
    part.unlink()
    Path(model.uri, "saved_model").write_text(Path(numbers.uri, "numbers.txt").read_text())


@component
def publish(
    model: InputArtifact[Model], last: InputArtifact[Schema], pushed: OutputArtifact[Model]
):
    del last
    Path(pushed.uri, "saved_model").write_text(Path(model.uri, "saved_model").read_text())


def create_pipeline() -> Pipeline:
    root = os.environ["SMALL_PIPELINE_ROOT"]
    schema = Importer(source_uri=f"{root}/schema", artifact_type=Schema).with_id("import_schema.v1")
    last = Resolver(strategy_class=LatestArtifactStrategy, schema=Channel(type=Schema)).with_id(
        "last_schema"
    )
    last.add_upstream_node(schema)
    numbers = make_numbers(
        schema=schema.outputs["result"],
        how_many=RuntimeParameter("how-many", int, 3),
        scale=RuntimeParameter("scale", float, 0.0),
        note=RuntimeParameter("note", str, "hello"),
    ).with_id("make.numbers")
    trainer = Trainer(numbers=numbers.outputs["numbers"])
    with Cond(numbers.outputs["total"].future()[0].value > 5):
        pushed = publish(model=trainer.outputs["model"], last=last.outputs["schema"])
        pushed = pushed.with_id("make_numbers")
    return Pipeline(
        pipeline_name="Small_Pipeline",
        pipeline_root=f"{root}/pipeline",
        components=[schema, last, numbers, trainer, pushed],
        enable_cache=True,
    )
