import json
from pathlib import Path
from unittest import mock

import pytest
import yaml
from kfp import components
from typer.main import get_command

from penstock.components.errors import UsageError
from penstock.pipelines.cli.main import app
from penstock.pipelines.kubeflow.executor import ExecutorInput
from penstock.pipelines.kubeflow.plain import COMMANDS, figures_of
from tests.pipelines.cli.conftest import call
from tests.pipelines.kubeflow.placements import IMAGE


@pytest.mark.parametrize("name", COMMANDS)
def test_a_component_is_one_container_by_digest(name, tmp_path):
    done = call("compile", name, "--image", IMAGE, "--out", tmp_path / "c.yaml")

    assert done.exit_code == 0, done.exception
    loaded = components.load_component_from_file(str(tmp_path / "c.yaml"))
    assert loaded.name == name
    assert list(tmp_path.iterdir()) == [tmp_path / "c.yaml"]
    spec = yaml.safe_load((tmp_path / "c.yaml").read_text())
    [executor] = spec["deploymentSpec"]["executors"].values()
    command = ["penstock", "component", name]
    assert executor["container"] == {"image": IMAGE, "command": command, "args": ["{{$}}"]}


def test_the_command_gets_arguments_and_paths():
    given = {
        "inputs": {
            "parameterValues": {"arguments": ["--split", "all=1"]},
            "artifacts": {"data": {"artifacts": [{"uri": "gs://bucket/{}.csv"}]}},
        },
        "outputs": {"artifacts": {"examples": {"artifacts": [{"uri": "/tmp/made"}]}}},
    }
    task = ExecutorInput.parse(json.dumps(given))
    words = ["--split", "all=1", "/gcs/bucket/{}.csv", "--overwrite", "/tmp/made"]
    assert list(COMMANDS["ingest"].words(task)) == words
    with pytest.raises(UsageError, match=r"^give the artifact examples$"):
        list(COMMANDS["pack"].words(task))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_has_the_flags(name):
    task = mock.Mock(parameters={}, input_path=Path, output_path=Path)
    words = [*COMMANDS[name].words(task), "--json"]
    flags = {word for word in words if word.startswith("--")}
    command = get_command(app).commands[name]
    assert flags <= {flag for option in command.params for flag in option.opts}


def test_figures_of_a_report_have_its_names():
    report = {"read": 9, "written": {"train": 7, "eval": 2}, "kind": "csv", "files": [1]}
    assert dict(figures_of(report)) == {"read": 9, "written_train": 7, "written_eval": 2}


def test_a_component_takes_no_options_of_a_pipeline(tmp_path):
    done = call("compile", "ingest", "--image", IMAGE, "--out", tmp_path / "c.yaml", "--set", "a=1")

    assert isinstance(done.exception, UsageError)
    assert str(done.exception).startswith("ingest is a component: the pipeline that calls it says")
    assert not list(tmp_path.iterdir())
