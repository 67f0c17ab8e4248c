"""`penstock compile`: writes a TFX pipeline or a plain component for Kubeflow Pipelines."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from penstock.pipelines.cli.option_flags import Assignments, Config, Overwrite
from penstock.pipelines.config.registry import PIPELINES
from penstock.pipelines.kubeflow.plain import COMMANDS, write_component


def command(
    pipeline: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(PIPELINES)}, your own as package.module:function, or a plain "
            f"component ({', '.join(COMMANDS)})."
        ),
    ],
    image: Annotated[
        str, typer.Option(help="Image that all tasks run, by digest: NAME@sha256:...")
    ],
    out: Annotated[Path, typer.Option(help="New file, .yaml.")],
    placement: Annotated[
        Path | None,
        typer.Option(help="YAML file: resources, GPU, volume, metadata store, retries."),
    ] = None,
    config: Config = None,
    assignment: Assignments = None,
    allow_mutable_tag: Annotated[
        bool,
        typer.Option("--allow-mutable-tag", help="Accept an image by a tag, which may move."),
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Compile a TFX pipeline to a Kubeflow Pipelines v2 file; nodes with little work share tasks.

    A plain component becomes a file that any Kubeflow pipeline can load, even one without TFX.

    Example: penstock compile taxi --image registry/penstock@sha256:... --out taxi.yaml
    """
    from penstock.components.errors import UsageError
    from penstock.pipelines.config.overrides import load_overrides
    from penstock.pipelines.kubeflow.compile import compile as compile_pipeline
    from penstock.pipelines.kubeflow.compiled_file import check_output, needs_kubeflow
    from penstock.pipelines.kubeflow.placement import read_placement

    if pipeline in COMMANDS:
        check_output(image, out, allow_mutable_tag=allow_mutable_tag, overwrite=overwrite)
        if placement or config or assignment:
            raise UsageError(
                f"{pipeline} is a component: the pipeline that calls it says its options, "
                "resources and volumes; leave out --placement, --config and --set"
            )
        with needs_kubeflow():
            write_component(pipeline, out, image=image)
        typer.echo(f"{out}: next: kfp.components.load_component_from_file({str(out)!r})")
        return
    plan = compile_pipeline(
        pipeline,
        out,
        image=image,
        placement=read_placement(placement),
        options=load_overrides(config, assignment or []),
        allow_mutable_tag=allow_mutable_tag,
        overwrite=overwrite,
    )
    for task in plan.tasks:
        after = f" after {', '.join(task.upstream)}" if task.upstream else ""
        typer.echo(f"{task.name}{after}")
    for package in plan.packages:
        typer.echo(f"the image must have your package {package}, on its Python path", err=True)
    typer.echo(f"{out}: {len(plan.tasks)} tasks; next: penstock submit {quote(str(out))}")
