"""The IR of a pipeline for which its containers' arguments have no room, see `workflow_size.py`.

The first tasks of a run write it below the pipeline root, a file a task, and every node reads it
there. The compiled file still holds all of it. The folder's name is the digest of what is in it.
"""

import hashlib
import os
import re
import uuid

from tfx.dsl.io import fileio
from tfx.proto.orchestration import pipeline_pb2

from penstock.components.errors import DataError
from penstock.pipelines.kubeflow.ir import decode
from penstock.pipelines.kubeflow.plan import Plan

_FOLDER = re.compile(r"^(?P<sha256>[0-9a-f]{64})-(?P<parts>\d+)$")


def carried_folder(plan: Plan, root: str) -> str:
    """Where the parts of a plan's IR lie, each called by its number from 1 on."""
    digest = hashlib.sha256("".join(plan.parts).encode()).hexdigest()
    return f"{root}/ir/{digest}-{len(plan.parts)}"


def write_part(address: str, text: str) -> None:
    """Write one part; it appears whole."""
    fileio.makedirs(os.path.dirname(address))
    temporary = f"{address}.{uuid.uuid4().hex}"
    with fileio.open(temporary, "w") as file:
        file.write(text)
    fileio.rename(temporary, address, overwrite=True)


def read_carried(folder: str) -> pipeline_pb2.Pipeline:
    """The IR in a folder; DataError if a part is missing, or they are not what its name says."""
    name = _FOLDER.match(os.path.basename(folder))
    if name is None:
        raise DataError(f"{folder}: not a folder that penstock carry writes")
    texts = []
    for number in range(1, int(name["parts"]) + 1):
        path = f"{folder}/{number}"
        if not fileio.exists(path):
            raise DataError(f"{path}: a part of the pipeline is missing; start the run again")
        with fileio.open(path, "r") as file:
            texts.append(file.read())
    text = "".join(texts)
    if hashlib.sha256(text.encode()).hexdigest() != name["sha256"]:
        raise DataError(f"{folder}: the pipeline there was altered; remove the folder, run again")
    return decode(text)
