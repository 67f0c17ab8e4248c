"""A Pusher whose model is served once it says so.

In: a blessed model. Out: the model below the serving folder, under a version above all others
there, which appears by one rename once every byte has been read back. A model server never sees
half a version, and the newest one is the one that was pushed last.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tfx import types
from tfx.components.pusher import component, executor
from tfx.dsl.components.base import executor_spec
from tfx.dsl.io import fileio
from tfx.proto import pusher_pb2
from tfx.types import artifact_utils, standard_component_specs
from tfx.utils import io_utils, proto_utils

from penstock.components.errors import DataError
from penstock.components.files.commit import attempt
from penstock.components.files.content import hash_file

DIGEST_PROPERTY = "pushed_sha256"


class Executor(executor.Executor):
    """Pushes to a folder of versions."""

    def Do(  # noqa: N802, TFX's name
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Push the model if it is blessed; one that is the newest there already stays.

        Raises:
            DataError: The serving folder cannot be written; nothing of the model is there then.
        """
        destination = pusher_pb2.PushDestination()
        stated = exec_properties[standard_component_specs.PUSH_DESTINATION_KEY]
        proto_utils.json_to_proto(stated, destination)
        folder = destination.filesystem.base_directory
        if "://" in folder or not self.CheckBlessing(input_dict):
            super().Do(input_dict, output_dict, exec_properties)
            return
        pushed = artifact_utils.get_single_instance(
            output_dict[standard_component_specs.PUSHED_MODEL_KEY]
        )
        with _here(self.GetModelPath(input_dict)) as model:
            version, digest = publish(model, folder)
            io_utils.copy_dir(model, pushed.uri)
        self._MarkPushed(pushed, pushed_destination=str(version), pushed_version=version.name)
        pushed.set_string_custom_property(DIGEST_PROPERTY, digest)


class Pusher(component.Pusher):
    """TFX's Pusher, with the executor above; remote serving folders are written as TFX does."""

    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)


@contextmanager
def _here(model: str) -> Iterator[str]:
    """A SavedModel as a folder of this machine: itself, or a copy of what is at an address."""
    if "://" not in model:
        yield model
        return
    with TemporaryDirectory(prefix="penstock-model-") as folder:
        io_utils.copy_dir(model, folder)
        yield folder


def publish(model: str, serving: str) -> tuple[Path, str]:
    """Put a SavedModel below a folder of versions, each a number, unless it is the newest there.

    Gives the version's folder, and the digest of its content (hex).
    """
    digest = folder_digest(model)
    newest = newest_version(serving)
    if newest is not None and folder_digest(str(newest)) == digest:
        return newest, digest
    # A clock that was set back must not put the model below the one that it replaces.
    number = max(int(time.time()), int(newest.name) + 1 if newest else 0)
    version = Path(serving, str(number))
    try:
        with attempt(version) as folder:
            shutil.copytree(model, folder, dirs_exist_ok=True)
            for file in folder.rglob("*"):
                if file.is_file():
                    _flush(file)
            if folder_digest(str(folder)) != digest:
                raise DataError(f"{version}: the model was not written as it is at {model}")
    except (OSError, shutil.Error) as error:
        raise DataError(
            f"{version}: the model cannot be pushed ({_reason(error)}); nothing of it remains"
        ) from error
    return version, digest


def check_served(pushed: types.Artifact) -> None:
    """Refuse a pushed model that is no longer what the serving folder's newest version holds.

    Args:
        pushed: A `PushedModel` of this Pusher or TFX's; of one that was not pushed, or not to a
            folder of versions, nothing is known.

    Raises:
        DataError: It is gone, altered, or another one is newer.
    """
    place = pushed.get_string_custom_property("pushed_destination")
    version = pushed.get_string_custom_property("pushed_version")
    if not version.isdecimal() or os.path.basename(place) != version:
        return
    if not fileio.isdir(place):
        raise DataError(f"{place}: the pushed model is gone")
    newest = newest_version(os.path.dirname(place))
    if newest is not None and newest.name != version:
        raise DataError(f"{place}: was pushed, but {newest.name} is the newest version there")
    digest = pushed.get_string_custom_property(DIGEST_PROPERTY)
    if digest and "://" not in place and folder_digest(place) != digest:
        raise DataError(f"{place}: the pushed model was altered")


def newest_version(serving: str) -> Path | None:
    """The version that a model server takes: the greatest number; None where there is none."""
    names = fileio.listdir(serving) if fileio.isdir(serving) else []
    versions = [name.rstrip("/") for name in names]
    numbers = [name for name in versions if name.isdecimal()]
    return Path(serving, max(numbers, key=int)) if numbers else None


def folder_digest(folder: str) -> str:
    """Digest (hex) of the relative paths and the content of all files below a folder."""
    total = hashlib.sha256()
    root = Path(folder)
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        name = file.relative_to(root).as_posix().encode()
        total.update(name + b"\0" + hash_file(str(file)).sha256)
    return total.hexdigest()


def _flush(file: Path) -> None:
    """Have the bytes on the disk, which on a full one of a network fails only now."""
    with file.open("rb") as data:
        os.fsync(data.fileno())


def _reason(error: OSError) -> str:
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        return str(error.args[0][0][2])
    return error.strerror or str(error)
