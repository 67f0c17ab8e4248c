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
    inline_ir: Annotated[
        str | None,
        typer.Option(
            hidden=True, help="The compressed IR itself; the command writes it to --ir first."
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            hidden=True, help="Recipe that builds the IR again if --option changes a value, JSON."
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
    span_from: Annotated[
        str | None,
        typer.Option(help="Address of an ExampleGen's data, with {SPAN}; by default the IR's."),
    ] = None,
    pipeline_root: Annotated[
        str | None,
        typer.Option(help="Folder or gs:// address of all outputs; by default the IR's."),
    ] = None,
    worker_job: Annotated[
        str | None,
        typer.Option(hidden=True, help="TFJob or JobSet whose workers run the node, JSON."),
    ] = None,
    kfp_executor_input: Annotated[
        str | None, typer.Option(hidden=True, help="KFP's executor input, JSON.")
    ] = None,
) -> None:
    """Run one node of a TFX pipeline, or several after each other.

    Exit 0: done, served from the cache, or skipped by its condition. Exit 1: failed or stopped;
    a retry with the same run id starts the failed node from scratch.

    Example: penstock node StatisticsGen --ir taxi.pb --run-id r1 --metadata metadata.sqlite
    """
    store = store_of(metadata)
    parameters = dict(name_and_value("--parameter", text) for text in parameter or [])
    # TFX takes seconds to import, so wrong options are reported first.
    from penstock.pipelines.kubeflow.light_launcher import load_tensorflow, without_tensorflow

    with without_tensorflow():
        from penstock.pipelines.kubeflow.ir import find_node, read_ir, write_ir
        from penstock.pipelines.kubeflow.node import launch_node

    if "://" in ir:
        load_tensorflow()
    if inline_ir is not None:
        write_ir(_with_options(inline_ir, recipe, option or []), ir)
    pipeline = read_ir(ir)
    if span_from:
        from penstock.pipelines.kubeflow.spans import read_spans_from

        read_spans_from(pipeline, node_ids[0], span_from)
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


def _with_options(inline_ir: str, recipe: str | None, options: Sequence[str]) -> str:
    if recipe is None:
        return inline_ir
    from penstock.pipelines.kubeflow.light_launcher import load_tensorflow, without_tensorflow

    with without_tensorflow():
        from penstock.pipelines.kubeflow.ir import decode, encode
        from penstock.pipelines.kubeflow.recipe import Recipe, check_same_graph

    made = Recipe.from_text(recipe)
    changed = made.changed(options)
    if not changed:
        return inline_ir
    load_tensorflow()
    built = made.build(changed)
    check_same_graph(built, decode(inline_ir), list(changed))
    typer.echo("options of this run: " + ", ".join(f"{n}={v}" for n, v in changed.items()))
    return encode(built)
