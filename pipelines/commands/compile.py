"""`penstock compile`: any TFX pipeline as a file for Kubeflow Pipelines."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    pipeline: Annotated[
        str, typer.Argument(help="A name (taxi), or your own as package.module:function.")
    ],
    image: Annotated[
        str, typer.Option(help="Image that all tasks run, by digest: NAME@sha256:...")
    ],
    out: Annotated[Path, typer.Option(help="File to write, .yaml.")],
    placement: Annotated[
        Path | None,
        typer.Option(help="YAML file: resources, GPU, volume, metadata store, retries."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file with pipeline options.")] = None,
    assignment: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change one pipeline option."),
    ] = None,
    allow_mutable_tag: Annotated[
        bool, typer.Option("--allow-mutable-tag", help="Take an image by tag, which may change.")
    ] = False,
) -> None:
    """Compile a TFX pipeline to a Kubeflow Pipelines v2 file, one container task a node.

    Example: penstock compile taxi --image registry/penstock@sha256:... --out taxi.yaml
    """
    from penstock.pipelines.overrides import load_overrides
    from penstock.pipelines.placement import read_placement

    table = read_placement(placement)
    changes = load_overrides(config, assignment or [])
    # TFX and kfp take seconds to import; wrong options are found before.
    from penstock.pipelines.compiling import compile_pipeline

    plan = compile_pipeline(
        pipeline, changes, out, image=image, placement=table, allow_mutable_tag=allow_mutable_tag
    )
    for task in plan.tasks:
        after = f" after {', '.join(task.upstream)}" if task.upstream else ""
        typer.echo(f"{task.name}{after}")
    typer.echo(f"{out}: {len(plan.tasks)} tasks; next: penstock submit {out}")
