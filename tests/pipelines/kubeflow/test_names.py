import re

from hypothesis import given
from hypothesis import strategies as st

from penstock.pipelines.kubeflow.names import field_names, pipeline_name, task_names


def test_task_names_are_dashed_and_numbered_where_they_collide():
    ids = ["CsvExampleGen", "my_node", "my.node", "my-node", "comp-x", "root", "_"]

    assert task_names(ids) == {
        "CsvExampleGen": "csvexamplegen",
        "my_node": "my-node-3",
        "my.node": "my-node-2",
        "my-node": "my-node",
        "comp-x": "compx",
        "root": "root-2",
        "_": "node",
    }


def test_long_names_are_cut_and_stay_distinct():
    names = task_names(["n" * 80 + "a", "n" * 80 + "b"])

    assert set(names.values()) == {"n" * 40, "n" * 38 + "-2"}
    assert pipeline_name("Small_Pipeline.v2") == "small-pipeline-v2"
    assert pipeline_name("~") == "pipeline"


@given(st.lists(st.text(max_size=50), unique=True, max_size=12))
def test_names_are_distinct_and_fit_argo(ids):
    names = task_names(ids)

    assert list(names) == ids
    assert len(set(names.values())) == len(ids)
    for name in names.values():
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", name)
        assert "comp-" not in name
        assert "exec-" not in name


@given(st.lists(st.text(max_size=80), unique=True, max_size=12))
def test_field_names_are_distinct_identifiers(names):
    kfp_names = field_names({name: name for name in names}).values()

    assert len(set(kfp_names)) == len(names)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in kfp_names)
    assert "run_id" not in kfp_names
