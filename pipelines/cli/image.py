"""`penstock image`: adds the user's package to Penstock's image."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from penstock.components.errors import DataError, UsageError
from penstock.components.files.commit import attempt
from penstock.pipelines.cli.option_flags import AllowMutableTag
from penstock.pipelines.kubeflow.compiled_file import check_image
from penstock.pipelines.kubeflow.user_packages import find_package

_FOLDER = "/opt/user"
# Docker keeps file modes, and some files may be readable by their owner only: hence --chown. If the
# image lacks a dependency of the package, the import fails the build and names it.
_DOCKERFILE = """\
FROM {base}
COPY --chown=65532 {name} {folder}/{name}
ENV PYTHONPATH={folder}
RUN python -c "import {module}"
"""


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
    if out is not None:
        write_context(package, base, out)
        typer.echo(f"{out}: next: docker build --tag NAME {quote(str(out))}")
    if tag is not None:
        build_image(package, base, tag)
        typer.echo(f"{tag}: next: docker push {tag}, and compile with the digest that it prints")


def write_context(package: str, base: str, folder: Path) -> None:
    """Writes a build context: a Dockerfile and the package, which may be in the working folder."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    found = find_package(package)
    with attempt(folder, overwrite=None) as made:
        if found.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".*")
            shutil.copytree(found, made / found.name, ignore=ignored)
        else:
            shutil.copy(found, made)
        text = _DOCKERFILE.format(
            base=base, name=found.name, folder=_FOLDER, module=package.partition(":")[0]
        )
        (made / "Dockerfile").write_text(text, encoding="utf-8")


def build_image(package: str, base: str, tag: str) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-image-") as temporary:
        folder = Path(temporary, "context")
        write_context(package, base, folder)
        try:
            done = subprocess.run(["docker", "build", "--tag", tag, str(folder)], check=False)
        except OSError as error:
            raise DataError(
                f"cannot run docker ({error.strerror}); write the folder with --out, and build "
                "the image where there is one"
            ) from error
    if done.returncode != 0:
        raise DataError(f"docker build of {tag} failed with exit code {done.returncode}; see above")
