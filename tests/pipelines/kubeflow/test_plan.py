"""Errors that name a node that cannot run in a container, and the nodes that share a task."""

from random import Random

import pytest
from tfx.components import CsvExampleGen, InfraValidator, StatisticsGen
from tfx.dsl.component.experimental.annotations import Parameter
from tfx.dsl.component.experimental.container_component import create_container_component
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.components.common.importer import Importer
from tfx.dsl.control_flow.for_each import ForEach
from tfx.orchestration.data_types import RuntimeParameter
from tfx.proto import infra_validator_pb2
from tfx.types.standard_artifacts import Examples, Model

from penstock.components.errors import UsageError
from penstock.pipelines.kubeflow.plan import plan_ir
from tests.pipelines.kubeflow.placements import ir_of, trainer_of


@component
def tell(text: Parameter[str] = ""):
    del text


def container_of_its_own():
    return [create_container_component(name="Sort", image="debian", command=["sort"])()]


def infra_validator(**serving):
    """A node that cannot run: pods have no Docker, and their account may not create pods."""
    model = Importer("/model", Model).with_id("import")
    spec = infra_validator_pb2.ServingSpec(
        tensorflow_serving=infra_validator_pb2.TensorFlowServing(tags=["latest"]), **serving
    )
    return [model, InfraValidator(model=model.outputs["result"], serving_spec=spec)]


def for_each():
    """A node that cannot run.

    `portable/launcher.py` of TFX 1.16 to 1.21 refuses more than one input dict.
    """
    examples = CsvExampleGen(input_base="gs://bucket/data")
    with ForEach(examples.outputs["examples"]) as one:
        return [examples, StatisticsGen(examples=one)]


def parameter_within_a_value():
    examples = Importer("/data", Examples).with_id("import")
    epochs = RuntimeParameter("epochs", int, 3)
    return [examples, trainer_of(examples, custom_config={"epochs": epochs})]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (container_of_its_own, "node 'Sort' brings a container of its own"),
        (
            lambda: infra_validator(local_docker={}),
            "node 'InfraValidator' is an InfraValidator, which needs Docker, and pods of ru",
        ),
        (lambda: infra_validator(kubernetes={}), "which needs the right to create pods"),
        (for_each, "node 'StatisticsGen' is within a ForEach, and TFX's launcher"),
        (parameter_within_a_value, "node 'Trainer', custom_config: a RuntimeParameter wit"),
        (
            lambda: [tell(text="password=hunter22")],
            "node 'tell', text: looks like the value of 'password'",
        ),
    ],
)
def test_node_that_cannot_be_a_container_is_refused(nodes, message):
    with pytest.raises(UsageError, match=message):
        plan_ir(ir_of(*nodes()))


def light(name, *upstream):
    """Returns an Importer, which is a light node: it may share a task with other nodes."""
    node = Importer(f"/{name}", Examples).with_id(name)
    node.add_upstream_nodes(upstream)
    return node


def heavy(name, *upstream):
    node = tell().with_id(name)
    node.add_upstream_nodes(upstream)
    return node


def groups(*nodes, alone=()):
    return [set(task.node_ids) for task in plan_ir(ir_of(*nodes), fuse=True, alone=alone).tasks]


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
    """In random graphs, no shared task waits for itself through another task."""
    random = Random(0)
    for _ in range(20):
        nodes = []
        for i in range(12):
            kind = light if random.random() < 0.6 else heavy
            nodes.append(kind(f"n{i}", *(n for n in nodes if random.random() < 0.2)))
        ir = ir_of(*nodes)
        done = set()
        for task in plan_ir(ir, fuse=True).tasks:
            assert set(task.upstream) <= done
            done.add(task.name)
        assert sum(len(task.node_ids) for task in plan_ir(ir, fuse=True).tasks) == len(nodes)
