"""TFX node that makes a pushed model the next revision of a KServe `InferenceService`.

Input: a PushedModel. Output: a folder for KServe's TensorFlow runtime with the model as its only
version, and the manifest of the service beside the model. In a cluster, the node also applies the
manifest.
"""

import json
import os
from shlex import quote
from typing import Any, TypedDict

from tfx.dsl.component.experimental.annotations import InputArtifact, Parameter
from tfx.dsl.io import fileio
from tfx.types.standard_artifacts import PushedModel
from tfx.utils import io_utils

from penstock.components.errors import DataError, short_error
from penstock.components.gates.options import KServeOptions, options_component
from penstock.components.plain import from_json

MANIFEST = "inferenceservice.json"
_TIMEOUT_SECONDS = 30


class KServeOutputs(TypedDict):
    """The service's manifest as JSON; empty if no model was pushed."""

    service: str


@options_component(KServeOptions)
def KServePush(  # noqa: N802 - TFX names a node after its function
    pushed: InputArtifact[PushedModel], options: Parameter[str]
) -> KServeOutputs:
    """Copies a pushed model to KServe's storage; in a cluster, makes it the next revision.

    Args:
        pushed: Output of a Pusher.
        options: A `KServeOptions` with a `folder`.

    Raises:
        DataError: The cluster refuses the service or does not answer; the message says why.
    """
    version = pushed.get_string_custom_property("pushed_version")
    if pushed.get_int_custom_property("pushed") != 1 or not version:
        print("kserve: no model was pushed")
        return {"service": ""}
    to = from_json(KServeOptions, options)
    place = f"{to.folder}/{version}"
    io_utils.copy_dir(pushed.uri, f"{place}/{version}")
    service = manifest(to, version)
    with fileio.open(f"{place}/{MANIFEST}", "w") as file:
        file.write(json.dumps(service, indent=1) + "\n")
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        apply(service)
        print(f"kserve: {to.namespace}/{to.name} serves {version} for {to.canary_percent} %")
    else:
        print(f"kserve: not in a cluster; kubectl apply -f {quote(f'{place}/{MANIFEST}')}")
    return {"service": json.dumps(service)}


def manifest(options: KServeOptions, version: str) -> dict[str, Any]:
    """Returns the `InferenceService`; without a canary, the new revision gets all requests."""
    storage = f"{options.storage or options.folder}/{version}"
    model = {"modelFormat": {"name": "tensorflow"}, "storageUri": storage}
    percent = options.canary_percent
    canary = {"canaryTrafficPercent": percent} if percent < 100 else {}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": options.name, "namespace": options.namespace},
        "spec": {"predictor": {**canary, "model": model}},
    }


def apply(service: dict[str, Any]) -> None:
    """Creates the service, or changes only the fields that Penstock sets (server-side apply)."""
    # The Kubernetes client is imported here, so that a node that only writes the manifest saves the
    # half second of this import.
    from kubernetes import client, config
    from urllib3.exceptions import HTTPError

    name, space = service["metadata"]["name"], service["metadata"]["namespace"]
    try:
        config.load_incluster_config()
        client.ApiClient().call_api(
            f"/apis/{service['apiVersion']}/namespaces/{space}/inferenceservices/{name}",
            "PATCH",
            query_params=[("fieldManager", "penstock"), ("force", "true")],
            header_params={"Content-Type": "application/apply-patch+yaml"},
            body=service,
            auth_settings=["BearerToken"],
            _request_timeout=_TIMEOUT_SECONDS,
        )
    except client.ApiException as error:
        raise DataError(f"InferenceService {space}/{name}: {_why(error)}") from error
    except (config.ConfigException, HTTPError) as error:
        cause = getattr(error, "reason", None) or error  # the last failure after urllib3's retries
        raise DataError(f"InferenceService {space}/{name}: {short_error(cause)}") from error


def _why(error: Any) -> str:
    if error.status == 404:
        return "the cluster has no KServe (serving.kserve.io/v1beta1), or no such namespace"
    if error.status == 403:
        return "the pod's account may not patch it; k8s/components/kserve has the Role"
    try:
        text = str(json.loads(error.body)["message"])
    except (ValueError, KeyError, TypeError):
        text = str(error.reason)
    return f"refused ({error.status}): {' '.join(text.split())[:500]}"
