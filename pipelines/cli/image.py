"""`penstock image`: adds the user's package to Penstock's image."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from penstock.components.errors import UsageError
from penstock.pipelines.cli.option_flags import AllowMutableTag
from penstock.pipelines.kubeflow.compiled_file import check_image


def command(
    package: Annotated[
        str, typer.Argument(help="Your package, or a pipeline in it as package.module:function.")
    ],
    base: Annotated[str, typer.Option(help="Penstock's image, by digest: NAME@sha256:...")],
    tag: Annotated[
        str | None, typer.Option(help="Build the image with Docker, under this name.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="New folder to write instead: build context with Dockerfile."),
    ] = None,
    allow_mutable_tag: AllowMutableTag = False,
) -> None:
    """Add your own package to Penstock's image, so that pods can run your pipeline.

    Example: penstock image mine --base registry/penstock@sha256:... --tag registry/mine:1
    """
    if (tag is None) == (out is None):
        raise UsageError("give either --tag, to build the image, or --out, to write its folder")
    check_image(base, allow_mutable_tag)
    from penstock.pipelines.cli.work.image import build_image, write_context

    if out is not None:
        write_context(package, base, out)
        typer.echo(f"{out}: next: docker build --tag NAME {quote(str(out))}")
    if tag is not None:
        build_image(package, base, tag)
        typer.echo(f"{tag}: next: docker push {tag}, and compile with the digest that it prints")
