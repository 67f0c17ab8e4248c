"""TFX's own example pipelines compile unchanged: spans, resolvers, a condition, module files."""

from dataclasses import replace
from pathlib import Path

import pytest
from absl import flags
from kfp import components

import penstock
from penstock.pipelines.kubeflow import ir as irs
from penstock.pipelines.kubeflow.recipe import Recipe
from penstock.pipelines.kubeflow.resources import Gpu
from tests.pipelines.kubeflow.placements import IMAGE, on

pytestmark = pytest.mark.slow  # importing tfx.v1 takes most of the time


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    """A folder that represents the volume; the roots of the example pipelines are in it."""
    folder = tmp_path_factory.mktemp("volume")
    (folder / "penguin_data/labelled").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[1] / "user_code"))
        patch.setenv("TFX_EXAMPLES_ROOT", str(folder))
        yield folder
    # One of the examples defines an absl flag `--runner`, which TFX would take for Beam's flag of
    # that name.
    if "runner" in flags.FLAGS:
        delattr(flags.FLAGS, "runner")


def compiled(name, placement, out):
    plan = penstock.compile(f"tfx_examples:{name}", out, image=IMAGE, placement=placement)
    assert components.load_component_from_file(str(out)).name == plan.name
    return plan, {task.name: task for task in plan.tasks}


def test_taxi(volume, tmp_path):
    plan, tasks = compiled("taxi", replace(on(volume), gpu=Gpu()), tmp_path / "taxi.yaml")

    assert {name: task.upstream for name, task in tasks.items()} == {
        "csvexamplegen": (),
        "statisticsgen": ("csvexamplegen",),
        "schemagen-to-examplevalidator": ("statisticsgen",),
        "transform": ("csvexamplegen", "schemagen-to-examplevalidator"),
        "trainer": ("schemagen-to-examplevalidator", "transform"),
        "latest-blessed-model-resolver-to-pusher": ("csvexamplegen", "trainer"),
    }
    assert "site-packages" not in (tmp_path / "taxi.yaml").read_text()
    ir, _ = Recipe.from_text(plan.recipe).build([])
    trainer = irs.find_node(ir, "Trainer").parameters.parameters
    module_file = trainer["module_file"].field_value.string_value
    assert module_file.endswith("/tfx/examples/chicago_taxi_pipeline/taxi_utils_native_keras.py")


def test_penguin_with_spans_a_window_of_them_and_a_condition(volume, tmp_path):
    placement = replace(replace(on(volume), gpu=Gpu()), fuse=False)
    _, tasks = compiled("penguin", placement, tmp_path / "penguin.yaml")

    assert {tasks[name].node_id for name in ("span-resolver", "csvexamplegen-unlabelled")} == {
        "span_resolver",
        "CsvExampleGen_Unlabelled",
    }
    assert tasks["csvexamplegen"].upstream == ("rangeconfiggenerator",)
    assert tasks["transform"].upstream == (
        "schemagen",
        "span-resolver",
        "transform-cache-resolver",
    )
    assert tasks["pusher"].upstream == ("evaluator", "trainer")
    assert tasks["bulkinferrer"].upstream == ("csvexamplegen-unlabelled", "trainer")
