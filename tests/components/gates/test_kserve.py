"""A push to KServe; a stand-in for the API server on loopback receives the service.

The fields of the InferenceService are those of kserve v0.16. With kserve's minimal CRD
(`config/crd/minimal/serving.kserve.io_inferenceservices.yaml`), an API server stores all fields,
even unknown ones. In `pkg/apis/serving/v1beta1/component.go`, ComponentExtensionSpec has
`canaryTrafficPercent`; in `predictor_model.go`, ModelSpec has `modelFormat` and `storageUri`. The
tests do not run KServe.
"""

import json
from dataclasses import replace

import pytest
from json_server import JsonServer
from kubernetes import client, config
from tfx.types.standard_artifacts import PushedModel

from penstock.components.errors import DataError
from penstock.components.gates import kserve
from penstock.components.gates.options import KServeOptions
from penstock.components.plain import to_json


@pytest.fixture
def api(monkeypatch):
    """A stand-in for the API server; this process behaves as if it ran in a pod of the cluster."""
    server = JsonServer(lambda *_: server.given)
    server.given = (200, {})

    def in_cluster():
        own = client.Configuration(server.host)
        own.api_key["authorization"] = "bearer a-token"
        client.Configuration.set_default(own)

    before = client.Configuration.get_default_copy()
    monkeypatch.setattr(config, "load_incluster_config", in_cluster)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    yield server
    server.close()
    client.Configuration.set_default(before)


CHURN = KServeOptions(
    name="churn", namespace="team-a", canary_percent=10, storage="pvc://penstock/runs/churn/kserve"
)
SERVICE = kserve.manifest(CHURN, "7")


def test_kserve_canary_is_applied_with_the_pods_account(api):
    kserve.apply(SERVICE)
    [(method, path, query, body, headers)] = api.requests
    where = "/apis/serving.kserve.io/v1beta1/namespaces/team-a/inferenceservices/churn"
    assert (method, path) == ("PATCH", where)
    assert query == {"fieldManager": "penstock", "force": "true"}
    assert headers["Authorization"].lower() == "bearer a-token"
    assert headers["Content-Type"] == "application/apply-patch+yaml"
    assert body == {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "churn", "namespace": "team-a"},
        "spec": {
            "predictor": {
                "canaryTrafficPercent": 10,
                "model": {
                    "modelFormat": {"name": "tensorflow"},
                    "storageUri": "pvc://penstock/runs/churn/kserve/7",
                },
            }
        },
    }


def test_kserve_all_traffic_has_no_canary_field():
    """A server-side apply by the same manager removes a field that is left out."""
    service = kserve.manifest(replace(CHURN, canary_percent=100), "7")
    assert "canaryTrafficPercent" not in service["spec"]["predictor"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((404, {}), "the cluster has no KServe (serving.kserve.io/v1beta1), or no such namespace"),
        ((403, {}), "the pod's account may not patch it; k8s/components/kserve has the Role"),
        ((422, {"message": "no\n such storage"}), "refused (422): no such storage"),
    ],
)
def test_kserve_refusal_is_one_line(api, answer, told):
    api.given = answer
    with pytest.raises(DataError) as error:
        kserve.apply(SERVICE)
    assert str(error.value) == f"InferenceService team-a/churn: {told}"


def push(root, **properties):
    """Pushes a model; returns the files that the node writes below the folder `kserve`."""
    (root / "pushed").mkdir()
    (root / "pushed" / "saved_model.pb").write_text("a model")
    pushed = PushedModel()
    pushed.uri = str(root / "pushed")
    pushed.set_int_custom_property("pushed", properties["pushed"])
    pushed.set_string_custom_property("pushed_version", properties.get("pushed_version", ""))
    options = replace(CHURN, folder=f"{root}/kserve", storage="pvc://penstock/kserve")
    kserve.KServePush.test_call(pushed=pushed, options=to_json(options))
    found = (file for file in (root / "kserve").rglob("*") if file.is_file())
    return {str(file.relative_to(root / "kserve")): file for file in found}


def test_kserve_push_has_a_folder_with_one_version(tmp_path, capfd):
    files = push(tmp_path, pushed=1, pushed_version="7")
    assert sorted(files) == ["7/7/saved_model.pb", "7/inferenceservice.json"]
    service = json.loads(files["7/inferenceservice.json"].read_text())
    assert service["spec"]["predictor"]["model"]["storageUri"] == "pvc://penstock/kserve/7"
    told = f"kserve: not in a cluster; kubectl apply -f {tmp_path}/kserve/7/inferenceservice.json"
    assert told in capfd.readouterr().out


def test_kserve_ignores_a_model_that_was_not_pushed(tmp_path, api):
    assert push(tmp_path, pushed=0) == {}
    assert api.requests == []
