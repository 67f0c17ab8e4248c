"""An image by digest, placements on a test's folder, small pipelines and their compiled files."""

import yaml
from tfx.components.trainer.component import Trainer
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import trainer_pb2

from penstock.pipelines.kubeflow.ir import compile_ir
from penstock.pipelines.kubeflow.pipeline_yaml import write_kubeflow
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
    """The JSON that KFP's launcher writes into the arguments of a task with these outputs."""
    outputs = {
        name: {"artifacts": [{"name": name, "uri": str(folder / name)}]} for name in artifacts
    }
    file = str(folder / "executor_output.json")
    return {"inputs": {}, "outputs": {"artifacts": outputs, "outputFile": file}}


class Compiled:
    """A compiled file: its spec, its tasks, and each task's component, container, pod options."""

    def __init__(self, plan, folder, placement=Placement()):  # noqa: B008  # frozen
        self.file = folder / "pipeline.yaml"
        write_kubeflow(plan, self.file, image=IMAGE, placement=placement)
        self.spec, platforms = list(yaml.safe_load_all(self.file.read_text()))
        self.tasks = self.spec["root"]["dag"]["tasks"]
        self.parameters = self.spec["root"].get("inputDefinitions", {}).get("parameters")
        executors = self.spec["deploymentSpec"]["executors"]
        pods = platforms["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
        names = [name.removeprefix("exec-") for name in executors]
        self.containers = {name: executors[f"exec-{name}"]["container"] for name in names}
        self.components = {name: self.spec["components"][f"comp-{name}"] for name in names}
        self.pods = {name: pods[f"exec-{name}"] for name in names}

    def option(self, task, flag):
        args = self.containers[task]["args"]
        return args[args.index(flag) + 1]

    def outputs(self):
        return {
            name: {
                key: made["artifactType"]["schemaTitle"]
                for key, made in one.get("outputDefinitions", {}).get("artifacts", {}).items()
            }
            for name, one in self.components.items()
        }
