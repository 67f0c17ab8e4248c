"""What cannot run as a container of its own is refused by name, before anything is compiled."""

from random import Random

import pytest
from tfx.components import CsvExampleGen, InfraValidator, StatisticsGen
from tfx.components.trainer.component import Trainer
from tfx.dsl.component.experimental.annotations import Parameter
from tfx.dsl.component.experimental.container_component import create_container_component
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.components.common.importer import Importer
from tfx.dsl.control_flow.for_each import ForEach
from tfx.orchestration.data_types import RuntimeParameter
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import infra_validator_pb2, trainer_pb2
from tfx.types.standard_artifacts import Examples, Model

from penstock.components.errors import UsageError
from penstock.pipelines.kubeflow import ir as irs
from penstock.pipelines.kubeflow.ir import compile_ir
from penstock.pipelines.kubeflow.plan import plan_ir


@component
def tell(text: Parameter[str] = ""):
    del text


def test_container_component_is_refused():
    brought = create_container_component(name="Sort", image="debian", command=["sort"])
    with pytest.raises(UsageError, match=r"node 'Sort' brings a container of its own"):
        plan_ir(compile_ir(Pipeline("p", "/r", components=[brought()])))


@pytest.mark.parametrize(
    ("serving", "needs"),
    [({"local_docker": {}}, "Docker"), ({"kubernetes": {}}, "the right to create pods")],
)
def test_refuses_tfxs_infra_validator(serving, needs):
    """A pod has no Docker, and `penstock-runner` of k8s/base may not create pods."""
    model = Importer("/model", Model).with_id("import")
    spec = infra_validator_pb2.ServingSpec(
        tensorflow_serving=infra_validator_pb2.TensorFlowServing(tags=["latest"]), **serving
    )
    validator = InfraValidator(model=model.outputs["result"], serving_spec=spec)
    expected = rf"^node 'InfraValidator' is an InfraValidator, which needs {needs}, and pods of ru"
    with pytest.raises(UsageError, match=expected):
        plan_ir(compile_ir(Pipeline("p", "/r", components=[model, validator])))


def test_for_each_is_refused():
    """TFX 1.16 to 1.21 portable/launcher.py: more than one input dict is not implemented."""
    examples = CsvExampleGen(input_base="gs://bucket/data")
    with ForEach(examples.outputs["examples"]) as one:
        statistics = StatisticsGen(examples=one)
    with pytest.raises(
        UsageError, match=r"^node 'StatisticsGen' is within a ForEach, and TFX's launcher"
    ):
        plan_ir(compile_ir(Pipeline("p", "/r", components=[examples, statistics])))


def test_runtime_parameter_within_a_value_is_refused():
    examples = Importer("/data", Examples).with_id("import")
    trainer = Trainer(
        run_fn="mine.run_fn",
        examples=examples.outputs["result"],
        train_args=trainer_pb2.TrainArgs(),
        eval_args=trainer_pb2.EvalArgs(),
        custom_config={"epochs": RuntimeParameter("epochs", int, 3)},
    )
    with pytest.raises(UsageError, match=r"node 'Trainer', custom_config: a RuntimeParameter wit"):
        plan_ir(compile_ir(Pipeline("p", "/r", components=[examples, trainer])))


def test_secret_in_an_option_is_refused():
    with pytest.raises(UsageError, match=r"node 'tell', text: looks like the value of 'password'"):
        plan_ir(compile_ir(Pipeline("p", "/r", components=[tell(text="password=hunter22")])))


def light(name, *upstream):
    """Returns a node whose component is called as a light one."""
    node = Importer(f"/{name}", Examples).with_id(name)
    node.add_upstream_nodes(upstream)
    return node


def heavy(name, *upstream):
    node = tell().with_id(name)
    node.add_upstream_nodes(upstream)
    return node


def groups(*nodes, alone=()):
    ir = irs.compile_ir(Pipeline("p", "/r", components=list(nodes)))
    return [set(task.node_ids) for task in plan_ir(ir, fuse=True, alone=alone).tasks]


def test_light_nodes_that_follow_each_other_share_a_task():
    schema = light("schema")
    data = heavy("data")
    statistics = heavy("statistics", data)
    validator = light("validator", schema, statistics)
    gate = light("gate", validator)
    trainer = heavy("trainer", gate)
    evaluator = light("evaluator", light_baseline := light("baseline"), trainer)
    pusher = light("pusher", evaluator)
    nodes = (schema, data, statistics, validator, gate, trainer, light_baseline, evaluator, pusher)

    assert groups(*nodes) == [
        {"data"},
        {"statistics"},
        {"schema", "validator", "gate"},
        {"trainer"},
        {"baseline", "evaluator", "pusher"},
    ]
    apart = groups(*nodes, alone=["validator", "evaluator"])
    assert [len(group) for group in apart] == [1] * 9


def test_light_nodes_without_an_edge_between_them_stay_apart():
    first, second = heavy("first"), heavy("second")
    nodes = [first, second, light("a", first), light("b", second)]
    assert groups(*nodes) == [{"first"}, {"second"}, {"a"}, {"b"}]


def test_tasks_come_after_all_tasks_that_their_nodes_need():
    """Random graphs: a shared task must not wait for itself by way of another."""
    random = Random(0)
    for _ in range(20):
        nodes = []
        for i in range(12):
            kind = light if random.random() < 0.6 else heavy
            nodes.append(kind(f"n{i}", *(n for n in nodes if random.random() < 0.2)))
        ir = irs.compile_ir(Pipeline("p", "/r", components=nodes))
        done = set()
        for task in plan_ir(ir, fuse=True).tasks:
            assert set(task.upstream) <= done
            done.add(task.name)
        assert sum(len(task.node_ids) for task in plan_ir(ir, fuse=True).tasks) == len(nodes)
