import json
from pathlib import Path

import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.kubeflow.executor import ExecutorInput, local_path


def test_whole_floats_of_json_become_ints():
    task = ExecutorInput.parse(
        json.dumps({"inputs": {"parameterValues": {"a": 2.0, "b": {"c": [1.0, 0.5, "1.0", True]}}}})
    )
    assert repr(task.parameters) == repr({"a": 2, "b": {"c": [1, 0.5, "1.0", True]}})


def test_missing_input_artifact_has_no_path():
    inputs = {"artifacts": {"a": {"artifacts": [{"uri": "/a"}]}, "b": {"artifacts": []}}}
    task = ExecutorInput.parse(json.dumps({"inputs": inputs}))

    assert task.input_path("a") == Path("/a")
    assert task.input_path("b") is None
    assert task.input_path("c") is None


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("gs://bucket/a", "/gcs/bucket/a"),
        ("s3://bucket/a", "/s3/bucket/a"),
        ("minio://bucket/a", "/minio/bucket/a"),
        ("/a/b", "/a/b"),
    ],
)
def test_local_path_is_kfps_mount_point(uri, path):
    assert local_path(uri) == Path(path)


@pytest.mark.parametrize("text", ["{{$}}", "", "[]", "7"])
def test_text_that_is_no_executor_input_is_refused(text):
    with pytest.raises(UsageError, match=r"^expected KFP's executor input, a JSON object, got "):
        ExecutorInput.parse(text)
