"""Why a run's model may not be served, from what its ServingCheck or InfraValidator left."""

import json
import os

from tfx.dsl.io import fileio

from penstock.pipelines.runs.run_record import RunRecord, plain_properties

_REPORT = "serving_check.json"


def serving_problems(run: RunRecord) -> tuple[str, ...]:
    """The problems, a line each; none where the model was not checked."""
    blessing = run.artifact("InfraBlessing")
    if blessing is None or plain_properties(blessing).get("blessed") == 1:
        return ()
    path = os.path.join(blessing.uri, _REPORT)
    if not fileio.exists(path):
        return (f"{blessing.uri} does not say why",)
    with fileio.open(path, "r") as file:
        return tuple(json.loads(file.read())["problems"])
