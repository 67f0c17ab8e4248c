"""Argo's limit of 1 MiB for a run's spec and compressed status (workflow/packer/packer.go).

The sizes were measured on what KFP 2.17's argocompiler makes, with a full status.
"""

import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.kubeflow.pipeline_yaml import write_kubeflow
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.plan import Plan, Task
from penstock.pipelines.kubeflow.workflow_size import check_size

# What `penstock node` is called with for a component of one short option.
SMALL = "x" * 525


def check_nodes(arguments):
    executors = {f"exec-n{i}": {"container": {"args": [a]}} for i, a in enumerate(arguments)}
    nodes = {f"n{i}": f"N{i}" for i in range(len(arguments))}
    check_size({"deploymentSpec": {"executors": executors}}, nodes)


def test_two_hundred_small_nodes_fit():
    """They take 767 KiB."""
    check_nodes([SMALL] * 200)


def test_three_hundred_do_not():
    """They take 1,141 KiB."""
    with pytest.raises(UsageError, match=r"run of these 300 nodes takes about 1,1\d\d KiB in Kub"):
        check_nodes([SMALL] * 300)


def test_nor_do_three_nodes_with_80_kb_of_options_each():
    """They take 1,142 KiB."""
    with pytest.raises(UsageError) as error:
        check_nodes(["x" * 81_000, "x" * 82_000, "x" * 81_000])
    assert str(error.value) == (
        "a run of these 3 nodes takes about 1,155 KiB in Kubernetes, where Argo fails one above "
        "1,024 KiB; the largest is node 'N1' with 82,000 characters of arguments: move large "
        "options into files of the image, or split the pipeline"
    )


def test_no_file_is_left_of_a_pipeline_that_is_too_large(tmp_path):
    irs = [letter * 81_000 for letter in "abc"]
    tasks = tuple(Task(ir[0], ir[0], "tell", ir, (), (), ()) for ir in irs)
    image = "registry.example/penstock@sha256:" + "0" * 64
    with pytest.raises(UsageError, match=r"the largest is node 'a'"):
        write_kubeflow(
            Plan("p", (), tasks), tmp_path / "p.yaml", image=image, placement=Placement()
        )
    assert not list(tmp_path.iterdir())
