"""Writes the YAML of Kubeflow Pipelines v2 from a plan and a placement.

Each task of the plan runs `penstock node`, so drivers, resolvers, conditions and the cache are
TFX's own. KFP schedules the tasks, starts them in order and retries them; its own cache is off.
KFP's run id is also TFX's. The first task builds the pipeline's IR from the recipe in its arguments
and writes it below the pipeline root. All tasks read it there.
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
from penstock.pipelines.kubeflow.names import NOTIFY
from penstock.pipelines.kubeflow.outputs import HTML, METRICS
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.plan import Parameter, Plan, Task
from penstock.pipelines.kubeflow.pod import MYSQL_TLS, place, set_retry_budgets, worker_job
from penstock.pipelines.kubeflow.resources import Notify

# KFP's launcher replaces this placeholder with JSON that contains the task's inputs and output
# files.
EXECUTOR_INPUT = "{{$}}"
_VIEW_TYPES = {METRICS: dsl.Output[dsl.Metrics], HTML: dsl.Output[dsl.HTML]}


def write_kubeflow(plan: Plan, out: Path, *, image: str, placement: Placement) -> None:
    """Compiles a plan to a YAML file, which appears whole or not at all."""
    placement.check_nodes(node_id for task in plan.tasks for node_id in task.node_ids)
    made = _pipeline(plan, image, placement)
    spec = json_format.MessageToDict(made.pipeline_spec)
    set_retry_budgets(spec, placement.retry)
    _write([spec, json_format.MessageToDict(made.platform_spec)], out)


def _write(documents: Sequence[Mapping[str, Any]], out: Path) -> None:
    # kfp's own compiler writes default values unescaped into a comment, so a default with a line
    # break makes the file invalid YAML.
    text = yaml.safe_dump_all(documents, sort_keys=True)
    components.load_component_from_text(text)
    with attempt_file(out) as file:
        file.write_text(text, encoding="utf-8")


def _pipeline(plan: Plan, image: str, placement: Placement) -> Any:
    writer = plan.tasks[0].name
    every = (*plan.parameters, *plan.options)

    def build(*channels: Any) -> None:
        values = {p.kfp_name: value for p, value in zip(every, channels, strict=True)}
        if placement.notify is None:
            add_tasks(values)
            return
        with dsl.ExitHandler(_notify_task(plan, image, placement, placement.notify), plan.name):
            add_tasks(values)

    def add_tasks(values: Mapping[str, Any]) -> None:
        made: dict[str, dsl.PipelineTask] = {}
        for task in plan.tasks:
            writes = task.name == writer
            step = _component(task, plan, image, placement, writes=writes)(
                run_id=dsl.PIPELINE_JOB_ID_PLACEHOLDER,
                **{p.kfp_name: values[p.kfp_name] for p in _parameters(task, plan, writes)},
                **{one.name: made[one.source].outputs[one.made] for one in task.inputs},
            )
            step.set_display_name(task.title)
            # KFP's cache is off: unlike TFX's, it does not notice changes of the data or of the
            # blessed model.
            step.set_caching_options(False)
            place(step, task, placement)
            waits_for = task.upstream or (() if writes else (writer,))
            made[task.name] = step.after(*(made[name] for name in waits_for))

    set_signature(
        build,
        plan.name,
        {parameter.kfp_name: parameter.kind for parameter in every},
        {p.kfp_name: p.default for p in every if p.default is not None},
    )
    return dsl.pipeline(name=plan.name)(build)


def _notify_task(plan: Plan, image: str, placement: Placement, notify: Notify) -> Any:
    nodes = [node_id for task in plan.tasks for node_id in task.node_ids]
    arguments = ["--pipeline", plan.name, "--metadata", _store(placement), "--link", notify.link]

    def container(run_id: str, html: Any) -> dsl.ContainerSpec:
        given = [*nodes, *arguments, "--run-id", run_id, "--kfp-executor-input", EXECUTOR_INPUT]
        return dsl.ContainerSpec(image=image, command=["penstock", "notify"], args=given)

    set_signature(container, "notify", {"run_id": str, HTML: _VIEW_TYPES[HTML]}, {})
    step = dsl.container_component(container)(run_id=dsl.PIPELINE_JOB_ID_PLACEHOLDER)
    step.set_caching_options(False)
    place(step, Task(("notify",), "notify", NOTIFY, (), (), (HTML,), (), ()), placement)
    return step


def _parameters(task: Task, plan: Plan, writes: bool) -> tuple[Parameter, ...]:
    return (*task.parameters, *(plan.options if writes else ()))


def _arguments(task: Task, plan: Plan, image: str, placement: Placement) -> list[str]:
    arguments = [*task.node_ids, "--pipeline-root", placement.root_of(plan.name)]
    arguments += ["--metadata", _store(placement)]
    if placement.has_workers(task.node_id, task.component):
        arguments += ["--worker-job", json.dumps(worker_job(placement, task.node_id, image))]
    return arguments


def _store(placement: Placement) -> str:
    if placement.metadata_mysql is None:
        return placement.metadata_sqlite
    tls = MYSQL_TLS if placement.mysql_secret.tls_name else None
    return replace(placement.metadata_mysql, tls=tls).address


def _command(task: Task, placement: Placement) -> list[str]:
    # The command `timeout` works in all versions of KFP; only KFP 2.5 and 2.14 to 2.17 are known to
    # read KFP's own `active_deadline_seconds`.
    seconds = placement.resources_of(task.node_id).timeout_seconds
    timeout = ["timeout", "--kill-after=60", str(seconds)] if seconds else []
    return [*timeout, "penstock", "node"]


def _component(task: Task, plan: Plan, image: str, placement: Placement, *, writes: bool) -> Any:
    parameters = _parameters(task, plan, writes)
    inputs = {"run_id": str, **{p.kfp_name: p.kind for p in parameters}}

    def container(*placeholders: Any) -> dsl.ContainerSpec:
        run_id, *values = placeholders[: len(inputs)]
        given = ["--run-id", run_id]
        for parameter, value in zip(parameters, values, strict=True):
            flag = "--option" if parameter in plan.options else "--parameter"
            given += [flag, f"{parameter.name}={value}"]
        outputs = ["--kfp-executor-input", EXECUTOR_INPUT] if task.views or task.outputs else []
        definition = ["--ir", f"{placement.root_of(plan.name)}/definitions/{run_id}.pb"]
        if writes:
            definition += ["--recipe", plan.recipe]
        args = [*_arguments(task, plan, image, placement), *given, *outputs, *definition]
        return dsl.ContainerSpec(image=image, command=_command(task, placement), args=args)

    artifacts = {one.name: dsl.Input[getattr(dsl, one.kind)] for one in task.inputs}
    made = {name: dsl.Output[getattr(dsl, kind)] for name, kind in task.outputs}
    views = {view: _VIEW_TYPES[view] for view in task.views}
    set_signature(container, task.name, {**inputs, **artifacts, **made, **views}, {})
    return dsl.container_component(container)


def set_signature(
    function: Callable[..., Any],
    name: str,
    types: Mapping[str, Any],
    defaults: Mapping[str, Any],
) -> None:
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
