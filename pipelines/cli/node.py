"""`penstock node`: runs nodes of a TFX pipeline in one container."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from penstock.pipelines.config.overrides import name_and_value
from penstock.pipelines.runs.metadata_store import MYSQL_PASSWORD, MYSQL_USER, store_of


def command(
    node_ids: Annotated[
        list[str], typer.Argument(metavar="NODE...", help="Ids of the nodes, in their order.")
    ],
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
    recipe: Annotated[
        str | None,
        typer.Option(
            hidden=True, help="Recipe that builds the IR, which is first written to --ir; JSON."
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            hidden=True, help="Option of the pipeline's config as NAME=VALUE; repeatable."
        ),
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Runtime parameter; repeatable.")
    ] = None,
    pipeline_root: Annotated[
        str | None,
        typer.Option(help="Folder or gs:// address of all outputs; by default the IR's."),
    ] = None,
    worker_job: Annotated[
        str | None,
        typer.Option(hidden=True, help="JobSet whose workers run the node, JSON."),
    ] = None,
    kfp_executor_input: Annotated[
        str | None, typer.Option(hidden=True, help="KFP's executor input, JSON.")
    ] = None,
) -> None:
    """Run one node of a TFX pipeline, or several after each other.

    Exit 0: done, served from the cache, or skipped by its condition. Exit 1: failed or stopped; a
    retry with the same run id runs the failed node again, in empty output folders.

    Example: penstock node StatisticsGen --ir taxi.pb --run-id r1 --metadata metadata.sqlite
    """
    store = store_of(metadata)
    parameters = dict(name_and_value("--parameter", text) for text in parameter or [])
    # TFX takes seconds to import, so wrong options are reported before that.
    from penstock.pipelines.kubeflow.light_launcher import load_tensorflow, without_tensorflow

    with without_tensorflow():
        from penstock.pipelines.kubeflow.ir import find_node, read_ir
        from penstock.pipelines.kubeflow.node import launch_node

    if "://" in ir:
        load_tensorflow()
    if recipe is not None:
        _build(recipe, option or [], ir)
    pipeline = read_ir(ir)
    made: dict[tuple[str, str], Sequence[Any]] = {}
    for node_id in node_ids:
        result = launch_node(
            pipeline,
            node_id,
            run_id=run_id,
            store=store,
            parameters=parameters,
            pipeline_root=pipeline_root,
            worker_job=json.loads(worker_job) if worker_job else None,
        )
        for key in sorted(find_node(pipeline, node_id).outputs.outputs):
            made[node_id, key] = result.outputs.get(key, ())
        typer.echo(f"{node_id}: {result.state.value}")
        for key, artifacts in result.outputs.items():
            for artifact in artifacts:
                typer.echo(f"{key}: {artifact.uri}")
    if kfp_executor_input is not None:
        from penstock.pipelines.kubeflow.outputs import write_kubeflow_outputs

        write_kubeflow_outputs(kfp_executor_input, made)


def _build(recipe: str, options: Sequence[str], address: str) -> None:
    from penstock.pipelines.kubeflow.light_launcher import load_tensorflow

    load_tensorflow()
    from penstock.pipelines.kubeflow.ir import write_ir
    from penstock.pipelines.kubeflow.recipe import Recipe

    built, changed = Recipe.from_text(recipe).build(options)
    if changed:
        typer.echo("options of this run: " + ", ".join(f"{n}={v}" for n, v in changed.items()))
    write_ir(built, address)
