"""`penstock run`: a whole pipeline on this machine, from raw data to a pushed model."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.pipelines.cli.option_flags import Assignments, Config
from penstock.pipelines.config.registry import HERE, PIPELINES


def command(
    pipeline: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(PIPELINES)}, or your own as package.module:function; else the one "
            "of the package in the working directory."
        ),
    ] = HERE,
    assignments: Assignments = None,
    config: Config = None,
    root: Annotated[
        Path | None, typer.Option(help="Folder of the runs; the option 'root'. [runs/PIPELINE]")
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the summary as JSON; progress as JSON lines on stderr."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the summary alone.")] = False,
) -> None:
    """Run a pipeline and print a summary.

    What is unchanged since the last run comes from the cache, where enable_cache is True.

    Example: penstock run taxi --set train.max_steps=500
    """
    # TensorFlow, TFX and Beam take seconds to import; --help needs none of them.
    from penstock.pipelines.cli.work.run import run_pipeline

    run_pipeline(pipeline, config, assignments or [], root=root, as_json=as_json, quiet=quiet)
