"""Pusher that publishes a model by one rename, under a version number above all others.

Input: a blessed model. Output: a new version in the serving folder, which appears only after every
byte was verified. A model server never sees half a version, and always serves the model that was
pushed last.
"""

import os
import shutil
import time
from pathlib import Path
from typing import Any

from tfx import types
from tfx.components.pusher import component, executor
from tfx.dsl.components.base import executor_spec
from tfx.proto import pusher_pb2
from tfx.types import artifact_utils, standard_component_specs
from tfx.utils import io_utils, proto_utils

from penstock.components.errors import DataError
from penstock.components.files.commit import attempt
from penstock.components.files.spool import local_folder
from penstock.components.gates.served_model import DIGEST_PROPERTY, folder_digest, newest_version


class Executor(executor.Executor):
    def Do(  # noqa: N802, TFX's name
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Publishes a blessed model in a local folder; leaves all other cases to TFX's executor."""
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
        model = local_folder(self.GetModelPath(input_dict))
        version, digest = publish(model, folder)
        io_utils.copy_dir(model, pushed.uri)
        self._MarkPushed(pushed, pushed_destination=str(version), pushed_version=version.name)
        pushed.set_string_custom_property(DIGEST_PROPERTY, digest)


class Pusher(component.Pusher):
    """TFX's Pusher, but with an atomic push to local folders; remote folders are left to TFX."""

    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)


def publish(model: str, serving: str) -> tuple[Path, str]:
    """Copies a SavedModel into a folder of numbered versions, unless it is already the newest.

    Returns the folder of the version and the digest of its content (hex).
    """
    digest = folder_digest(model)
    newest = newest_version(serving)
    if newest is not None and folder_digest(str(newest)) == digest:
        return newest, digest
    # If the clock was set back, the model must still have a higher number than the model that it
    # replaces.
    number = max(int(time.time()), int(newest.name) + 1 if newest else 0)
    version = Path(serving, str(number))
    try:
        with attempt(version) as folder:
            shutil.copytree(model, folder, dirs_exist_ok=True)
            for file in folder.rglob("*"):
                if file.is_file():
                    with file.open("rb") as data:
                        os.fsync(data.fileno())  # a full network disk reports its error only here
            if folder_digest(str(folder)) != digest:
                raise DataError(f"{version}: the model was not written as it is at {model}")
    except (OSError, shutil.Error) as error:
        raise DataError(
            f"{version}: the model cannot be pushed ({_reason(error)}); nothing of it remains"
        ) from error
    return version, digest


def _reason(error: OSError) -> str:
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        return str(error.args[0][0][2])
    return error.strerror or str(error)
