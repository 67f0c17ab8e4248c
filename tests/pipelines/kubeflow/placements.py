"""An image by digest, placements on a folder of a test, and pipelines of a few nodes."""

from tfx.components.trainer.component import Trainer
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import trainer_pb2

from penstock.pipelines.kubeflow.ir import compile_ir
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.resources import Volume

IMAGE = "registry.example/penstock@sha256:" + "0" * 64


def on(folder):
    return Placement(
        pipeline_root=f"{folder}/runs",
        metadata_sqlite=f"{folder}/metadata.sqlite",
        volume=Volume(mount_path=str(folder)),
    )


def ir_of(*nodes, name="p"):
    """The compiled pipeline of nodes."""
    return compile_ir(Pipeline(name, "/r", components=list(nodes)))


def trainer_of(examples, **more):
    """A node that trains on the output of an Importer."""
    return Trainer(
        run_fn="mine.run_fn",
        examples=examples.outputs["result"],
        train_args=trainer_pb2.TrainArgs(),
        eval_args=trainer_pb2.EvalArgs(),
        **more,
    )


def executor_input(folder, *artifacts):
    """What KFP's launcher puts into the arguments of a task with these outputs."""
    outputs = {
        name: {"artifacts": [{"name": name, "uri": str(folder / name)}]} for name in artifacts
    }
    file = str(folder / "executor_output.json")
    return {"inputs": {}, "outputs": {"artifacts": outputs, "outputFile": file}}
