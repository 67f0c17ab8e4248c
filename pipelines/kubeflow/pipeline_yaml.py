"""A plan and a placement as a Kubeflow Pipelines v2 YAML: one container task a node.

Each task runs `penstock node`, so drivers, resolvers, conditions and the cache are TFX's own.
Where the IR is too large for their arguments, tasks before them write it, see `carried.py`.
KFP adds the order, the retries and the place, and its own cache stays off. Its run id is TFX's.
"""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from google.protobuf import json_format
from kfp import components, dsl

from penstock.components.files.commit import attempt_file
from penstock.pipelines.kubeflow.carried import carried_folder
from penstock.pipelines.kubeflow.compiled_file import check_image, check_yaml
from penstock.pipelines.kubeflow.names import CARRIERS
from penstock.pipelines.kubeflow.outputs import HTML, METRICS, MODEL_URI
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.plan import SPAN_FROM, Plan, Task
from penstock.pipelines.kubeflow.pod import MYSQL_TLS, place, set_retry_budgets
from penstock.pipelines.kubeflow.worker_pods import worker_job
from penstock.pipelines.kubeflow.workflow_size import fit

# KFP's launcher puts JSON in its place: where it wants which outputs.
EXECUTOR_INPUT = "{{$}}"
_VIEW_TYPES = {
    METRICS: dsl.Output[dsl.Metrics],
    MODEL_URI: dsl.OutputPath(str),
    HTML: dsl.Output[dsl.HTML],
}


def write_kubeflow(
    plan: Plan, out: Path, *, image: str, placement: Placement, allow_mutable_tag: bool = False
) -> Plan:
    """Compile a plan to a YAML file, which appears whole or not at all.

    Returns:
        The plan as it was compiled, see `fit`.

    Raises:
        UsageError: The image or the placement does not fit, or the pipeline is too large.
    """
    check_image(image, allow_mutable_tag)
    check_yaml(out)
    placement.check_nodes(task.node_id for task in plan.tasks)
    plan = fit(plan)
    made = _pipeline(plan, image, placement)
    spec = json_format.MessageToDict(made.pipeline_spec)
    set_retry_budgets(spec, placement.retry)
    _write([spec, json_format.MessageToDict(made.platform_spec)], out)
    return plan


def _write(documents: Sequence[Mapping[str, Any]], out: Path) -> None:
    # Not by kfp's own compiler, which puts defaults as they are into a comment: one with a line
    # break makes a file that is no YAML.
    text = yaml.safe_dump_all(documents, sort_keys=True)
    components.load_component_from_text(text)
    with attempt_file(out) as file:
        file.write_text(text, encoding="utf-8")


def _pipeline(plan: Plan, image: str, placement: Placement) -> Any:
    """The pipeline as kfp wants it: a function that makes the tasks."""

    def build(*channels: Any) -> None:
        values = {p.name: value for p, value in zip(plan.parameters, channels, strict=True)}
        carriers = _carriers(plan, image, placement)
        made: dict[str, dsl.PipelineTask] = {}
        for task in plan.tasks:
            step = _step(task, plan, image, placement, values)
            made[task.name] = step.after(*([made[n] for n in task.upstream] or carriers))

    _set_signature(
        build,
        plan.name,
        {parameter.kfp_name: parameter.kind for parameter in plan.parameters},
        {p.kfp_name: p.default for p in plan.parameters if p.default is not None},
    )
    return dsl.pipeline(name=plan.name)(build)


def _step(
    task: Task, plan: Plan, image: str, placement: Placement, values: Mapping[str, Any]
) -> dsl.PipelineTask:
    ir = ["--inline-ir", task.inline_ir]
    if plan.parts:
        ir = ["--carried-ir", carried_folder(plan, placement.root_of(plan.name))]
    arguments = _arguments(task, plan, image, placement)
    component = _component(task, image, _command(task, placement), arguments, ir)
    step = component(
        run_id=dsl.PIPELINE_JOB_ID_PLACEHOLDER,
        **{parameter.kfp_name: values[parameter.name] for parameter in task.parameters},
    )
    return _placed(step, task, placement)


def _carriers(plan: Plan, image: str, placement: Placement) -> list[dsl.PipelineTask]:
    """The tasks that write the IR below the root, where the plan has it in parts."""
    folder = carried_folder(plan, placement.root_of(plan.name))

    def carrier(number: int, name: str, part: str) -> dsl.PipelineTask:
        def container() -> dsl.ContainerSpec:
            command, args = ["penstock", "carry"], [f"{folder}/{number}", part]
            return dsl.ContainerSpec(image=image, command=command, args=args)

        _set_signature(container, name, {}, {})
        step = dsl.container_component(container)()
        return _placed(step, Task(name, name, "", part, (), (), ()), placement)

    numbered = enumerate(zip(CARRIERS, plan.parts, strict=False), 1)
    return [carrier(number, name, part) for number, (name, part) in numbered]


def _placed(step: dsl.PipelineTask, task: Task, placement: Placement) -> dsl.PipelineTask:
    step.set_display_name(task.node_id)
    # TFX's cache knows what KFP's cannot: the content of the data and the blessed model.
    step.set_caching_options(False)
    place(step, task, placement)
    return step


def _arguments(task: Task, plan: Plan, image: str, placement: Placement) -> list[str]:
    """What `penstock node` is called with in every run, but for the parameters."""
    store = placement.metadata_sqlite
    if placement.metadata_mysql is not None:
        tls = MYSQL_TLS if placement.mysql_secret.tls_name else None
        store = replace(placement.metadata_mysql, tls=tls).address
    job = []
    if placement.has_workers(task.node_id, task.component):
        job = ["--worker-job", json.dumps(worker_job(placement, task.node_id, image))]
    return [
        task.node_id,
        "--pipeline-root",
        placement.root_of(plan.name),
        "--metadata",
        store,
        *job,
    ]


def _command(task: Task, placement: Placement) -> list[str]:
    """The container's command; KFP 2.17 reads its own `active_deadline_seconds` nowhere."""
    seconds = placement.resources_of(task.node_id).timeout_seconds
    timeout = ["timeout", "--kill-after=60", str(seconds)] if seconds else []
    return [*timeout, "penstock", "node"]


def _component(
    task: Task, image: str, command: list[str], arguments: list[str], ir: list[str]
) -> Any:
    inputs = {"run_id": str, **{p.kfp_name: p.kind for p in task.parameters}}

    def container(*placeholders: Any) -> dsl.ContainerSpec:
        run_id, *values = placeholders[: len(inputs)]
        given = [
            argument
            for parameter, value in zip(task.parameters, values, strict=True)
            for argument in (
                ("--span-from", value)
                if parameter is SPAN_FROM
                else ("--parameter", f"{parameter.name}={value}")
            )
        ]
        outputs = ["--kfp-executor-input", EXECUTOR_INPUT] if task.views else []
        return dsl.ContainerSpec(
            image=image,
            command=command,
            # The IR comes last: nobody reads it, and it is long.
            args=[*arguments, *("--run-id", run_id), *given, *outputs, *ir],
        )

    _set_signature(container, task.name, {**inputs, **{v: _VIEW_TYPES[v] for v in task.views}}, {})
    return dsl.container_component(container)


def _set_signature(
    function: Callable[..., Any],
    name: str,
    types: Mapping[str, Any],
    defaults: Mapping[str, Any],
) -> None:
    """Make kfp, which reads names and types off a function, see these."""
    function.__name__ = name
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                parameter,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=kind,
                default=defaults.get(parameter, inspect.Parameter.empty),
            )
            for parameter, kind in types.items()
        ]
    )
