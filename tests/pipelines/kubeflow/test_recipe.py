import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from penstock.components.errors import UsageError
from penstock.pipelines.config.registry import find_pipeline
from penstock.pipelines.kubeflow import ir as irs
from penstock.pipelines.kubeflow.compile import compile as compile_
from penstock.pipelines.kubeflow.recipe import Recipe, build_ir, graph_of, run_options
from penstock.pipelines.taxi.config import Config
from tests.pipelines.kubeflow.placements import IMAGE, on

USER_CODE = Path(__file__).parents[1] / "user_code"
NAME = "with_options:create_pipeline"


@pytest.fixture
def recipe(monkeypatch):
    monkeypatch.syspath_prepend(str(USER_CODE))
    graph = graph_of(build_ir(find_pipeline(NAME, {}), {}))
    return Recipe(NAME, {"sizes": [8]}, graph, root="/penstock/runs/with-options")


def text_of(ir, node_id):
    parameters = irs.find_node(ir, node_id).parameters.parameters
    return parameters["text"].field_value.string_value


def test_named_options_and_their_values_are_parameters(recipe):
    assert run_options(find_pipeline(NAME, {}).config) == {
        "data": "gs://bucket/rows",
        "train.max_steps": 100,
        "train.rate": 0.01,
        "train.cosine": False,
        "limits": {"auc": 0.8, "loss": 1.0},
        "sizes": [64, 32],
        "pushes": True,
    }


def test_default_parameters_are_those_that_the_config_has():
    assert run_options(Config()) == {
        "data": Config().data,
        "train.max_steps": 160,
        "input.batch_size": 256,
        "model.learning_rate": 0.01,
        "evaluation.thresholds": {"BinaryAccuracy": 0.8, "AUC": 0.8},
    }

    @dataclass(frozen=True)
    class Other:
        data: str = "s3://b"
        train: None = None

    assert run_options(Other()) == {"data": "s3://b"}
    assert run_options(None) == {}


@pytest.mark.parametrize("name", ["no_such", "train", "name"])
def test_parameter_that_is_no_option_with_a_value_is_refused(monkeypatch, name):
    monkeypatch.syspath_prepend(str(USER_CODE))
    config = find_pipeline(NAME, {"parameters": [name]}).config
    with pytest.raises(UsageError, match=f"^parameters: {name} has no value that a run's form"):
        run_options(config)


def test_texts_of_kfp_are_the_compiled_values_or_others_of_their_type(recipe):
    same = ["train.max_steps=100.0", "train.cosine=False", 'limits={"auc":0.8,"loss":1}', "data="]
    same += ["train.rate=0.01", "data=gs://bucket/rows", "sizes=[8]"]
    assert recipe.build(same)[1] == {}

    _, changed = recipe.build(
        ["train.max_steps=2e+02", "train.cosine=true", "train.rate=1", "data=1"]
    )
    assert changed == {"train.max_steps": 200, "train.cosine": True, "train.rate": 1.0, "data": "1"}
    assert isinstance(changed["train.max_steps"], int)


@pytest.mark.parametrize("text", ["train.max_steps=2.5", "train.rate=x", "limits=[1]", "sizes=7"])
def test_text_of_another_type_is_refused(recipe, text):
    with pytest.raises(UsageError, match=r"^parameter .*: expected a"):
        recipe.build([text])


def test_definition_is_built_with_changed_options_and_the_roots_of_pods(recipe):
    texts = ['limits={"auc": 0.9}', "train.rate=0.00001"]
    built, _ = Recipe.from_text(recipe.to_text()).build(texts)

    text = text_of(built, "Writer")
    # `limits` is replaced as a whole; `sizes` keeps the recipe's value.
    assert "{'auc': 0.9} (8,)" in text
    assert "max_steps=100, rate=1e-05" in text
    assert text_of(built, "Pusher") == "/penstock/runs/with-options"


def test_another_graph_than_the_compiled_one_is_refused(recipe):
    recipe.build(["train.max_steps=3"])
    with pytest.raises(
        UsageError, match=r"^pushes: changes node .Pusher., and a run cannot change"
    ):
        recipe.build(["pushes=false"])
    older = replace(recipe, graph={**recipe.graph, "Writer": "12345678"})
    with pytest.raises(UsageError, match=r"^the code in the image has another node 'Writer' than"):
        older.build([])


def test_a_run_of_a_span_reads_it_and_the_window_that_ends_with_it(tmp_path):
    """`penstock submit --spans` starts one run like this for each span."""
    changes = {"data": f"{tmp_path}/{{SPAN}}/*.csv", "last_spans": 3, "start_from": "blessed"}
    changes["parameters"] = ["span"]
    ir = build_ir(find_pipeline("taxi", changes), {})
    built, changed = Recipe("taxi", changes, graph_of(ir)).build(["span=5.0"])
    assert changed == {"span": 5}
    assert irs.find_node(built, "BaseModel").upstream_nodes
    nodes = [str(irs.find_node(built, name)) for name in ("ShardedExampleGen", "Spans")]
    last_and_first = [re.findall(r'span_number\\": (\d+)', node) for node in nodes]
    assert last_and_first == [["5", "5"], ["5", "3"]]


@pytest.mark.slow
def test_run_with_another_option_builds_its_definition_in_the_first_pod(recipe, penstock, tmp_path):
    out = tmp_path / "p.yaml"
    compile_(NAME, out, image=IMAGE, placement=on(tmp_path))
    spec = next(yaml.safe_load_all(out.read_text()))
    forms = spec["root"]["inputDefinitions"]["parameters"]
    assert {name: one["parameterType"] for name, one in forms.items()} == {
        "data": "STRING",
        "limits": "STRUCT",
        "pushes": "BOOLEAN",
        "sizes": "LIST",
        "train_cosine": "BOOLEAN",
        "train_max_steps": "NUMBER_INTEGER",
        "train_rate": "NUMBER_DOUBLE",
    }
    executors = spec["deploymentSpec"]["executors"].values()
    [args] = [e["container"]["args"] for e in executors if "--recipe" in e["container"]["args"]]
    args = ["Writer", *args[1:]]

    def run(run_id, **changes):
        values = {n: one["defaultValue"] for n, one in forms.items()} | changes
        filled = [text.replace("{{$}}", "{}") for text in args]
        for name, value in {**values, "run_id": run_id}.items():
            shown = value if isinstance(value, str) else json.dumps(value)
            filled = [t.replace(f"{{{{$.inputs.parameters['{name}']}}}}", shown) for t in filled]
        environment = {**os.environ, "PYTHONPATH": str(USER_CODE)}
        return penstock.start("node", *filled, env=environment).wait()

    for run_id, steps in (("r1", 100), ("r2", 7)):
        done = run(run_id, train_max_steps=float(steps))
        assert done.returncode == 0, done.stderr
        assert ("options of this run: train.max_steps=7" in done.stdout) == (steps == 7)
        definition = irs.read_ir(str(tmp_path / f"runs/with-options/definitions/{run_id}.pb"))
        assert f"max_steps={steps}" in text_of(definition, "Writer")
    made = sorted(p.read_text() for p in tmp_path.glob("runs/*/Writer/model/*/saved_model"))
    assert ["max_steps=100" in made[0], "max_steps=7" in made[1]] == [True, True]

    refused = run("r3", pushes=False)
    assert refused.returncode == 2
    assert "changes node 'Pusher'" in refused.stderr
