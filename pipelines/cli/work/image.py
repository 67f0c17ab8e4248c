"""Work of `penstock image`: a user's package on top of Penstock's image."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.components.errors import DataError
from penstock.components.files.commit import attempt
from penstock.pipelines.kubeflow.user_packages import find_package

_FOLDER = "/opt/user"
# Docker keeps file modes, and files may be readable by their owner only: hence --chown. The import
# fails the build by name if the image lacks a dependency of the package.
_DOCKERFILE = """\
FROM {base}
COPY --chown=65532 {name} {folder}/{name}
ENV PYTHONPATH={folder}
RUN python -c "import {module}"
"""


def write_context(package: str, base: str, folder: Path) -> None:
    """Writes a build context: a Dockerfile, and the package, also one of the working folder."""
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
