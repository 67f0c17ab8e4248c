"""Argo's limit of 1 MiB for a run's JSON, with its status as base64 of gzip.

argo-workflows `workflow/packer/packer.go` compressWorkflow, `util/file/fileutil.go`
CompressEncodeString. KFP 2.17's `templateDefaults` (its `workflow-controller-configmap-patch.yaml`)
make every node a Retry node and what it retries (`operator.go` executeTemplate), each with a copy.
"""

import base64
import random

import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.kubeflow.pipeline_yaml import write_kubeflow
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.plan import Plan, Task
from penstock.pipelines.kubeflow.workflow_size import fit

RANDOM = random.Random(1)


def noise(chars):
    """As much of base64 as what does not compress becomes."""
    return base64.urlsafe_b64encode(RANDOM.randbytes(chars))[:chars].decode()


def plan(sizes, whole=""):
    tasks = [Task(f"N{i}", f"n{i}", "tell", noise(s), (), (), ()) for i, s in enumerate(sizes)]
    return Plan("p", (), tuple(tasks), ir=whole or "".join(task.inline_ir for task in tasks))


def test_small_nodes_have_their_own_part():
    small = plan([340] * 150)
    assert fit(small) is small


def test_no_argument_is_longer_than_linux_takes():
    """128 KiB with its end, MAX_ARG_STRLEN of execve(2): what fits Argo is shorter."""
    largest = plan([111_000], noise(100_000))
    assert fit(largest) is largest
    assert fit(plan([112_000], noise(100_000))).parts


def test_of_300_small_nodes_all_is_carried_once():
    """Their parts repeat each other: of 300 with a short option all takes 2,016 characters."""
    carried = fit(plan([376] * 300, noise(2_016)))
    assert [len(part) for part in carried.parts] == [2_016]


def test_large_options_of_several_nodes_are_carried_in_parts():
    carried = fit(plan([45_000] * 3, noise(135_000)))
    assert [len(part) for part in carried.parts] == [20_000] * 6 + [15_000]
    assert "".join(carried.parts) == carried.ir


def test_three_nodes_of_80_kb_that_do_not_compress_are_refused():
    """Any way they stand in the workflow at least seven times: 1.7 MB."""
    with pytest.raises(UsageError) as error:
        fit(plan([81_000, 82_000, 81_000]))
    assert str(error.value) == (
        "a run of these 3 nodes takes about 1,800 KiB in Kubernetes, where Argo fails one above "
        "1,024 KiB; the largest is node 'N1' with 82,000 characters of options, compressed: move "
        "large options into files of the image, or split the pipeline"
    )


def test_no_file_is_left_of_a_pipeline_that_is_too_large(tmp_path):
    image = "registry.example/penstock@sha256:" + "0" * 64
    with pytest.raises(UsageError, match=r"the largest is node 'N0'"):
        write_kubeflow(plan([81_000] * 3), tmp_path / "p.yaml", image=image, placement=Placement())
    assert not list(tmp_path.iterdir())
