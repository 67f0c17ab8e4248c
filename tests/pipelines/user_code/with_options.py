"""A pipeline with a config, whose options a run on Kubeflow may change."""

from dataclasses import dataclass, field
from pathlib import Path

from tfx.dsl.component.experimental.annotations import OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration.pipeline import Pipeline
from tfx.types.standard_artifacts import Model


@dataclass(frozen=True)
class Train:
    max_steps: int = 100
    rate: float = 0.01
    cosine: bool = False


@dataclass(frozen=True)
class Config:
    root: str = "runs"
    data: str = "gs://bucket/rows"
    train: Train = Train()
    limits: dict[str, float] = field(default_factory=lambda: {"auc": 0.8, "loss": 1.0})
    sizes: tuple[int, ...] = (64, 32)
    pushes: bool = True
    name: str | None = None
    parameters: tuple[str, ...] = (
        "data",
        "train.max_steps",
        "train.rate",
        "train.cosine",
        "limits",
        "sizes",
        "pushes",
    )


@component
def write(model: OutputArtifact[Model], text: Parameter[str]):
    Path(model.uri, "saved_model").write_text(text)


def create_pipeline(config: Config) -> Pipeline:
    text = f"{config.data} {config.train} {config.limits} {config.sizes}"
    nodes = [write(text=text).with_id("Writer")]
    if config.pushes:
        nodes.append(write(text=config.root).with_id("Pusher"))
    return Pipeline("with_options", f"{config.root}/pipeline", components=nodes)
