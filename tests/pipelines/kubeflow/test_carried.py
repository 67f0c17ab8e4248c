"""A pipeline too large for its containers' arguments: compiled, carried, and a node of it run."""

import random

import pytest
import yaml
from tfx.dsl.component.experimental.annotations import Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration.pipeline import Pipeline

from penstock.components.errors import DataError
from penstock.pipelines.kubeflow.carried import read_carried, write_part
from penstock.pipelines.kubeflow.node import State, launch_node
from penstock.pipelines.kubeflow.pipeline_yaml import write_kubeflow
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.planner import plan_pipeline
from penstock.pipelines.kubeflow.resources import Volume
from penstock.pipelines.runs.metadata_store import SqliteStore

IMAGE = "registry.example/penstock@sha256:" + "0" * 64


@component
def tell(text: Parameter[str] = ""):
    print(f"told {len(text)}")


@pytest.fixture
def three_large(tmp_path):
    """Three nodes with an option of 80 kB each: tasks and containers; `tmp_path` is the volume."""
    numbers = random.Random(0)
    texts = ["".join(numbers.choices("01234567", k=80_000)) for _ in range(3)]
    nodes = [tell(text=text).with_id(f"tell.{i}") for i, text in enumerate(texts)]
    nodes[2].add_upstream_node(nodes[1])
    placement = Placement(
        pipeline_root=f"{tmp_path}/runs",
        metadata_sqlite=f"{tmp_path}/metadata.sqlite",
        volume=Volume(mount_path=str(tmp_path)),
    )
    plan = plan_pipeline(Pipeline("large", "/r", components=nodes))
    out = tmp_path / "large.yaml"
    write_kubeflow(plan, out, image=IMAGE, placement=placement)
    spec, _ = yaml.safe_load_all(out.read_text())
    executors = spec["deploymentSpec"]["executors"]
    containers = {name.removeprefix("exec-"): e["container"] for name, e in executors.items()}
    return spec["root"]["dag"]["tasks"], containers


def test_a_node_runs_from_what_the_first_tasks_wrote(three_large, tmp_path):
    tasks, containers = three_large
    carriers = [f"pipeline-ir-{number}" for number in range(1, 8)]
    assert sorted(containers) == [*carriers, "tell-0", "tell-1", "tell-2"]
    assert tasks["tell-0"]["dependentTasks"] == carriers
    assert tasks["tell-2"]["dependentTasks"] == ["tell-1"]
    for name in carriers:
        assert containers[name]["command"] == ["penstock", "carry"]
        assert len(containers[name]["args"][1]) <= 20_000
        write_part(*containers[name]["args"])

    *_, option, folder = containers["tell-2"]["args"]
    assert option == "--carried-ir"
    assert folder.startswith(f"{tmp_path}/runs/large/ir/")
    result = launch_node(
        read_carried(folder),
        "tell.2",
        run_id="r",
        store=SqliteStore(f"{tmp_path}/metadata.sqlite"),
        pipeline_root=f"{tmp_path}/runs/large",
    )
    assert result.state == State.DONE


def test_what_is_missing_or_altered_is_refused(three_large):
    _, containers = three_large
    folder = containers["tell-0"]["args"][-1]
    with pytest.raises(DataError, match=r"/1: a part of the pipeline is missing; start the run ag"):
        read_carried(folder)
    for name in [name for name in containers if name.startswith("pipeline-ir")]:
        address, part = containers[name]["args"]
        write_part(address, part if name != "pipeline-ir-3" else part.replace("A", "B"))
    with pytest.raises(DataError, match=r"the pipeline there was altered; remove the folder, run "):
        read_carried(folder)
