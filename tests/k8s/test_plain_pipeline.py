"""Compiles the example of plain components, reads it back, and runs its containers' commands."""

import importlib.util
import json
from pathlib import Path

import pytest
import yaml
from kfp import compiler, components

from penstock.components.tfrecord.manifest import read_manifest
from penstock.pipelines.kubeflow.plain import write_component
from tests.pipelines.kubeflow.placements import IMAGE, executor_input

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The compiled pipeline, loaded from the file that Kubeflow receives."""
    folder = tmp_path_factory.mktemp("plain")
    for name in ("ingest", "verify", "pack"):
        write_component(name, folder / f"{name}.yaml", image=IMAGE)
    spec = importlib.util.spec_from_file_location("plain", ROOT / "k8s/examples/plain_pipeline.py")
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    file = folder / "plain.yaml"
    compiler.Compiler().compile(plain.make_pipeline(folder), str(file))
    assert components.load_component_from_file(str(file)).name == "pack-trips"
    return yaml.safe_load(file.read_text())


@pytest.fixture(scope="module")
def run_as_kfp(compiled, penstock):
    """A function that runs a task's container command as KFP does."""

    def run(name, artifacts, out, parameters=None):
        container = compiled["deploymentSpec"]["executors"][f"exec-{name}"]["container"]
        assert container["image"] == IMAGE
        assert (container["command"][0], container["args"]) == ("penstock", ["{{$}}"])
        executor_input = fill_in(compiled, name, artifacts, out, parameters or {})
        return penstock(*container["command"][1:], executor_input)

    return run


def fill_in(compiled, name, artifacts, out, parameters):
    """The JSON with which KFP's launcher replaces {{$}} in a container's arguments."""
    inputs = compiled["root"]["dag"]["tasks"][name]["inputs"].get("parameters", {})
    constants = {key: one["runtimeValue"] for key, one in inputs.items() if "runtimeValue" in one}
    given = {key: one["constant"] for key, one in constants.items()}
    made = compiled["components"][f"comp-{name}"]["outputDefinitions"]["artifacts"]
    wanted = executor_input(out, *made)
    wanted["inputs"] = {
        "parameterValues": {**given, **parameters},
        "artifacts": {
            key: {"artifacts": [{"name": key, "uri": str(path)}]} for key, path in artifacts.items()
        },
    }
    return json.dumps(wanted)


def metrics(out):
    answer = json.loads((out / "executor_output.json").read_text())
    return answer["artifacts"]["metrics"]["artifacts"][0]["metadata"]


@pytest.fixture(scope="module")
def shards(run_as_kfp, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trips")
    (folder / "trips.csv").write_text(
        "fare,tips\n" + "".join(f"{i / 2},{i % 3}\n" for i in range(200)) + "cheap,1\n"
    )
    done = run_as_kfp("ingest", {"data": folder / "trips.csv"}, folder / "out")
    assert done.returncode == 0, done.stderr
    return folder / "out"


def test_plain_pipeline_is_typed(compiled):
    tasks = compiled["root"]["dag"]["tasks"]
    assert set(tasks) == {"importer", "ingest", "verify", "pack"}
    assert tasks["verify"]["inputs"]["artifacts"]["examples"]["taskOutputArtifact"] == {
        "producerTask": "ingest",
        "outputArtifactKey": "examples",
    }
    assert set(tasks["pack"]["dependentTasks"]) == {"ingest", "verify"}


def test_ingest_gives_shards_and_figures(shards):
    account = read_manifest(shards / "examples").account
    assert (account.read, account.quarantined) == (201, 1)
    figures = metrics(shards)
    assert figures["read"] == 201
    assert figures["quarantined"] == 1
    assert figures["written_train"] == account.written["train"] > figures["written_eval"] > 0


def test_verify_and_pack_take_what_ingest_gives(run_as_kfp, shards, tmp_path):
    artifacts = {"examples": shards / "examples"}
    done = run_as_kfp("verify", artifacts, tmp_path / "verified")
    assert done.returncode == 0, done.stderr
    assert metrics(tmp_path / "verified")["records"] == 200
    given = {"arguments": ["--split", "train", "--column", "fare", "--seed", "1"]}
    done = run_as_kfp("pack", artifacts, tmp_path, given)

    assert done.returncode == 0, done.stderr
    manifest = read_manifest(tmp_path / "packed")
    assert list(manifest.splits) == ["train"]
    written = read_manifest(shards / "examples").account.written["train"]
    assert metrics(tmp_path)["written_train"] == written


def test_ingest_takes_addresses_a_schema_and_options_of_a_kind(run_as_kfp, tmp_path):
    (tmp_path / "trips.txt").write_text("1;2\n3;4\n")
    schema = tmp_path / "schema.pbtxt"
    schema.write_text('feature { name: "a" type: FLOAT } feature { name: "b" type: BYTES }')
    names = ["--column-name", "a", "--column-name", "b"]
    arguments = [str(tmp_path / "*.txt"), "--kind", "csv", "--delimiter", ";", *names]
    given = {"arguments": [*arguments, "--split", "all=1"]}
    for _ in range(2):  # a retry replaces the output of an earlier attempt
        done = run_as_kfp("ingest", {"schema": schema}, tmp_path / "out", given)
        assert done.returncode == 0, done.stderr
    manifest = read_manifest(tmp_path / "out/examples")
    assert dict(manifest.account.written) == {"all": 2}
    assert [(c.name, c.kind) for c in manifest.columns] == [("a", "FLOAT"), ("b", "BYTES")]
