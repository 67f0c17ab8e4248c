"""TFX node that registers a pushed model in MLflow's model registry.

Input: a PushedModel, its evaluation, and the Examples that it was trained on. Output: a version of
a registered model, with the model's files, metrics and digests; an alias points to the version.
"""

import os
from collections.abc import Callable
from typing import Any, TypedDict

from tfx.dsl.component.experimental.annotations import InputArtifact, Parameter
from tfx.types.standard_artifacts import Examples, ModelEvaluation, PushedModel

from penstock.components.errors import DataError, UsageError, one_line
from penstock.components.evaluator.evaluation import Evaluation
from penstock.components.evaluator.slice_metrics import OVERALL
from penstock.components.files.secrets import without_secrets
from penstock.components.files.spool import local_folder
from penstock.components.gates.options import RegisterOptions, options_component
from penstock.components.gates.served_model import DIGEST_PROPERTY
from penstock.components.plain import from_json
from penstock.components.tfrecord.manifest import MANIFEST_PROPERTY

_MODEL, _FOLDER = "penstock.model", "model"
# By default, MLflow's client retries for minutes, but a running server answers at once.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "30"}


class RegisterOutputs(TypedDict):
    """The version in the form `models:/churn/3`; empty if no model was pushed."""

    registered: str


@options_component(RegisterOptions)
def Register(  # noqa: N802 - TFX names a node after its function
    pushed: InputArtifact[PushedModel],
    evaluation: InputArtifact[ModelEvaluation],
    examples: InputArtifact[Examples],
    options: Parameter[str],
) -> RegisterOutputs:
    """Registers a pushed model, unless the registry already has it, and moves the alias to it.

    Args:
        pushed: Output of a Pusher.
        evaluation: Output of an Evaluator; its metrics over all rows are logged.
        examples: Examples that the model was trained on; their digest becomes a tag.
        options: A `RegisterOptions` with `uri` and `name`.

    Raises:
        DataError: The registry does not answer or refuses the model; the message gives its reason.
        UsageError: MLflow is not installed.
    """
    if pushed.get_int_custom_property("pushed") != 1:
        print("register: no model was pushed")
        return {"registered": ""}
    to = from_json(RegisterOptions, options)
    tags = {
        _MODEL: pushed.get_string_custom_property(DIGEST_PROPERTY),
        "penstock.data": examples.get_string_custom_property(MANIFEST_PROPERTY),
        "penstock.code": to.code,
        "penstock.pushed": pushed.get_string_custom_property("pushed_destination"),
        "penstock.report": to.report,
    }
    metrics = Evaluation.read(evaluation.uri).metrics.get(OVERALL, {})
    version = register(to, pushed.uri, {name: text for name, text in tags.items() if text}, metrics)
    print(f"register: models:/{to.name}/{version} is {to.alias} at {without_secrets(to.uri)}")
    return {"registered": f"models:/{to.name}/{version}"}


def register(to: RegisterOptions, folder: str, tags: dict[str, str], metrics: Any) -> str:
    """Returns the version with the model's digest; creates it if it does not exist yet."""
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        raise UsageError("register needs a package: pip install 'penstock-tfx[mlflow]'") from error
    os.environ.update({name: os.environ.get(name, text) for name, text in _PATIENCE.items()})
    client = MlflowClient(to.uri, to.uri)
    try:
        _ensure(client.create_registered_model, to.name)
        version = _known(client, to.name, tags[_MODEL]) or _made(client, to, folder, tags, metrics)
        client.set_registered_model_alias(to.name, to.alias, version)
    except MlflowException as error:
        text = without_secrets(f"register.uri={to.uri}: {one_line(error)}")
        raise DataError(f"{text}; run again when the registry answers") from error
    return version


def _ensure(create: Callable[[str], object], name: str) -> None:
    """Creates a model or an experiment; another run may have created it before or meanwhile."""
    from mlflow.exceptions import MlflowException

    try:
        create(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def _known(client: Any, name: str, digest: str) -> str | None:
    """Returns the version whose tag is `digest`, if an earlier attempt has made it."""
    found = client.search_model_versions(f"name='{name}'")
    return next((str(one.version) for one in found if one.tags.get(_MODEL) == digest), None)


def _made(client: Any, to: RegisterOptions, folder: str, tags: dict[str, str], metrics: Any) -> str:
    _ensure(client.create_experiment, to.name)
    experiment = client.get_experiment_by_name(to.name).experiment_id
    run = client.create_run(experiment, tags=tags, run_name=to.name)
    for name, value in metrics.items():
        client.log_metric(run.info.run_id, name, value)
    client.log_artifacts(run.info.run_id, local_folder(folder), _FOLDER)
    client.set_terminated(run.info.run_id)
    source = f"{run.info.artifact_uri}/{_FOLDER}"
    return str(client.create_model_version(to.name, source, run.info.run_id, tags=tags).version)
