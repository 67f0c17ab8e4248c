import pytest
import yaml
from kfp import components
from typer.testing import CliRunner

from penstock.components.errors import UsageError
from penstock.pipelines.cli.main import app
from penstock.pipelines.kubeflow.plain.definitions import (
    DEFINITIONS,
    make_component,
    write_component,
)
from penstock.pipelines.kubeflow.plain.run import COMPONENTS, run_component

IMAGE = "registry.example/penstock@sha256:" + "0" * 64


def compile_(*arguments):
    return CliRunner().invoke(app, ["compile", *map(str, arguments)])


def test_every_component_has_a_definition_and_work():
    assert list(DEFINITIONS) == list(COMPONENTS)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_component_is_one_container_by_digest(name, tmp_path):
    done = compile_(name, "--image", IMAGE, "--out", tmp_path / "c.yaml")

    assert done.exit_code == 0, done.exception
    loaded = components.load_component_from_file(str(tmp_path / "c.yaml"))
    assert loaded.name == name
    assert list(tmp_path.iterdir()) == [tmp_path / "c.yaml"]
    (executor,) = yaml.safe_load((tmp_path / "c.yaml").read_text())["deploymentSpec"][
        "executors"
    ].values()
    assert executor["container"] == {
        "image": IMAGE,
        "command": ["penstock", "component", name],
        "args": ["{{$}}"],
    }


def test_every_parameter_is_described():
    for name in DEFINITIONS:
        spec = make_component(name, IMAGE).component_spec
        for key, value in spec.inputs.items():
            assert value.description, f"{name}: {key}"


def test_defaults_are_those_of_the_command_line():
    inputs = {name: make_component(name, IMAGE).component_spec.inputs for name in DEFINITIONS}
    assert inputs["ingest"]["splits"].default == {"train": 2, "eval": 1}
    assert inputs["ingest"]["options"].default == {}
    assert inputs["validate"]["options"].default == {}
    assert inputs["pack"]["options"].default == {}


def test_mutable_image_unknown_component_and_wrong_suffix_are_refused(tmp_path):
    with pytest.raises(UsageError, match=r"image 'x:1' may change between two runs"):
        write_component("ingest", tmp_path / "c.yaml", image="x:1")
    with pytest.raises(UsageError, match=r"no component 'digest'; choices: ingest, validate, pack"):
        make_component("digest", IMAGE)
    with pytest.raises(UsageError, match=r"no component 'digest'; choices: ingest, validate, pack"):
        run_component("digest", "{}")
    with pytest.raises(UsageError, match=r"c.txt: Kubeflow reads files that end in .yaml"):
        write_component("ingest", tmp_path / "c.txt", image=IMAGE)
    assert not list(tmp_path.iterdir())


def test_a_component_takes_no_options_of_a_pipeline(tmp_path):
    done = compile_("ingest", "--image", IMAGE, "--out", tmp_path / "c.yaml", "--set", "a=1")

    assert isinstance(done.exception, UsageError)
    assert str(done.exception).startswith("ingest is a component: the pipeline that calls it says")
    assert not list(tmp_path.iterdir())
