"""Hidden commands that compiled pipelines run in containers, in addition to `penstock node`."""

import contextlib
import io
import json
import shutil
from typing import Annotated

import typer

from penstock.pipelines.kubeflow.executor import ExecutorInput


def component(
    name: Annotated[str, typer.Argument(help="The command that the component runs.")],
    executor_input: Annotated[str, typer.Argument(help="KFP's executor input, JSON.")],
) -> None:
    """Run a plain component inside its container."""
    from penstock.pipelines.cli.main import app
    from penstock.pipelines.kubeflow.plain import COMMANDS, figures_of

    task = ExecutorInput.parse(executor_input)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        command = COMMANDS[name]
        for output in command.gives:  # an earlier attempt may have left files
            shutil.rmtree(task.output_path(output), ignore_errors=True)
        words = [name, *command.words(task), "--json"]
        app(words, prog_name="penstock", standalone_mode=False)
    report = json.loads(printed.getvalue())
    report.pop("manifests", None)  # has no metrics
    shown = report.get("account") or report.get("metrics") or report
    task.write_metadata({"metrics": dict(figures_of(shown))})


def notify(
    nodes: Annotated[list[str], typer.Argument(help="Ids of the pipeline's nodes.")],
    pipeline: Annotated[str, typer.Option(help="Name of the pipeline.")],
    metadata: Annotated[str, typer.Option(help="Metadata store, as for penstock node.")],
    run_id: Annotated[str, typer.Option(help="Id of the run.")],
    link: Annotated[str, typer.Option(help="Address of the run's page, with RUN_ID.")] = "",
    kfp_executor_input: Annotated[str | None, typer.Option(help="KFP's executor input.")] = None,
) -> None:
    """Send a message with the result of a run that has ended."""
    from penstock.pipelines.kubeflow.notify import notify as send
    from penstock.pipelines.runs.metadata_store import store_of

    line = send(
        store_of(metadata),
        run_id,
        pipeline=pipeline,
        nodes=nodes,
        link=link,
        executor_input=kfp_executor_input,
    )
    typer.echo(line)


def worker(
    invocation: Annotated[str, typer.Argument(help="File with TFX's ExecutionInvocation.")],
    executor: Annotated[str, typer.Argument(help="Dotted path of the executor's class.")],
    addresses: Annotated[list[str], typer.Argument(help="host:port of each worker.")],
) -> None:
    """Train as one of several workers, in a pod of the job that a node starts.

    If the exit code is 128 or more, start all workers again; they continue from the last
    checkpoint.
    """
    from penstock.pipelines.kubeflow.worker_jobs import work

    work(invocation, executor, addresses)
