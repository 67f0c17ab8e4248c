import json
from pathlib import Path

import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.kubeflow.executor import ExecutorInput, local_path


def test_whole_floats_are_ints_and_a_missing_artifact_has_no_path():
    inputs = {
        "parameterValues": {"a": 2.0, "b": {"c": [1.0, 0.5, "1.0", True]}},
        "artifacts": {"a": {"artifacts": [{"uri": "/a"}]}, "b": {"artifacts": []}},
    }
    task = ExecutorInput.parse(json.dumps({"inputs": inputs}))
    assert repr(task.parameters) == repr({"a": 2, "b": {"c": [1, 0.5, "1.0", True]}})
    assert [task.input_path(name) for name in "abc"] == [Path("/a"), None, None]


def test_local_path_is_kfps_mount_point():
    for scheme, folder in (("gs", "/gcs"), ("s3", "/s3"), ("minio", "/minio")):
        assert local_path(f"{scheme}://bucket/a") == Path(folder, "bucket/a")
    assert local_path("/a/b") == Path("/a/b")


@pytest.mark.parametrize("text", ["{{$}}", "", "[]", "7"])
def test_text_that_is_no_executor_input_is_refused(text):
    with pytest.raises(UsageError, match=r"^expected KFP's executor input, a JSON object, got "):
        ExecutorInput.parse(text)
