"""`penstock node`: runs one node of a TFX pipeline; the work of one container."""

import json
from typing import Annotated

import typer

from penstock.components.errors import UsageError
from penstock.pipelines.runs.metadata_store import MYSQL_PASSWORD, MYSQL_USER, store_of


def command(
    node_id: Annotated[str, typer.Argument(metavar="NODE", help="Id of the node.")],
    run_id: Annotated[str, typer.Option(help="Id of the run, the same for all of its nodes.")],
    metadata: Annotated[
        str,
        typer.Option(
            help="Metadata store: an sqlite file, or mysql://HOST[:PORT]/DATABASE[?tls=FOLDER]; "
            f"{MYSQL_USER} and {MYSQL_PASSWORD} log in."
        ),
    ],
    ir: Annotated[
        str, typer.Option(help="IR of the pipeline: a path or an address, proto or JSON.")
    ],
    inline_ir: Annotated[
        str | None, typer.Option(hidden=True, help="The IR, to write there before it is read.")
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Runtime parameter; repeatable.")
    ] = None,
    span_from: Annotated[
        str | None,
        typer.Option(help="Address of an ExampleGen's data, with {SPAN}; by default the IR's."),
    ] = None,
    pipeline_root: Annotated[
        str | None,
        typer.Option(help="Folder or gs:// address of all outputs; by default the IR's."),
    ] = None,
    worker_job: Annotated[
        str | None, typer.Option(hidden=True, help="TFJob whose workers run the node, JSON.")
    ] = None,
    kfp_executor_input: Annotated[
        str | None, typer.Option(hidden=True, help="KFP's executor input, JSON.")
    ] = None,
) -> None:
    """Run one node of a TFX pipeline.

    Exit 0: done, served from the cache, or skipped by its condition. Exit 1: failed or stopped;
    a retry with the same run id starts it from scratch.

    Example: penstock node StatisticsGen --ir taxi.pb --run-id r1 --metadata metadata.sqlite
    """
    store = store_of(metadata)
    parameters = dict(_name_and_value(text) for text in parameter or [])
    # TFX takes seconds to import; wrong options are reported before.
    from penstock.pipelines.kubeflow.light_launcher import load_tensorflow, without_tensorflow

    with without_tensorflow():
        from penstock.pipelines.kubeflow.ir import read_ir, write_ir
        from penstock.pipelines.kubeflow.node import launch_node

    if "://" in ir:
        load_tensorflow()
    if inline_ir is not None:
        write_ir(inline_ir, ir)
    pipeline = read_ir(ir)
    if span_from:
        from penstock.pipelines.kubeflow.spans import read_spans_from

        read_spans_from(pipeline, node_id, span_from)
    result = launch_node(
        pipeline,
        node_id,
        run_id=run_id,
        store=store,
        parameters=parameters,
        pipeline_root=pipeline_root,
        worker_job=json.loads(worker_job) if worker_job else None,
    )
    if kfp_executor_input is not None:
        from penstock.pipelines.kubeflow.outputs import write_kubeflow_outputs

        write_kubeflow_outputs(kfp_executor_input, result.outputs)
    typer.echo(f"{node_id}: {result.state.value}")
    for key, artifacts in result.outputs.items():
        for artifact in artifacts:
            typer.echo(f"{key}: {artifact.uri}")


def _name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--parameter takes NAME=VALUE, got {text!r}")
    return name, value
