"""Argo's limit of 1 MiB for a run's spec and compressed status (workflow/packer/packer.go).

The sizes were measured on what KFP 2.17's argocompiler makes, with a full status.
"""

import base64
import random

import pytest
from tfx.dsl.component.experimental.annotations import Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration.pipeline import Pipeline

from penstock.components.errors import UsageError
from penstock.pipelines.kubeflow.pipeline_yaml import write_kubeflow
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.planner import plan_pipeline

IMAGE = "registry.example/penstock@sha256:" + "0" * 64


@component
def tell(text: Parameter[str] = ""):
    del text


def compile_nodes(texts, out):
    nodes = [tell(text=text).with_id(f"tell{i}") for i, text in enumerate(texts)]
    plan = plan_pipeline(Pipeline("p", "/r", components=nodes))
    write_kubeflow(plan, out, image=IMAGE, placement=Placement())


def noise(count):
    """Texts of 80 kB that do not compress."""
    return [base64.b64encode(random.Random(i).randbytes(60_000)).decode() for i in range(count)]


def test_two_hundred_small_nodes_fit(tmp_path):
    compile_nodes(["a"] * 200, tmp_path / "p.yaml")


def test_three_hundred_do_not(tmp_path):
    """They take 1,141 KiB."""
    with pytest.raises(UsageError, match=r"run of these 300 nodes takes about 1,1\d\d KiB in Kub"):
        compile_nodes(["a"] * 300, tmp_path / "p.yaml")
    assert not list(tmp_path.iterdir())


def test_nor_do_three_nodes_with_80_kb_of_options_each(tmp_path):
    """They take 1,142 KiB."""
    expected = (
        r"3 nodes takes about 1,1\d\d KiB .* largest is node 'tell\d' with \d\d,\d\d\d characters"
    )
    with pytest.raises(UsageError, match=expected):
        compile_nodes(noise(3), tmp_path / "p.yaml")


def test_two_of_them_do(tmp_path):
    compile_nodes(noise(2), tmp_path / "p.yaml")
