"""A push to KServe: an API server on loopback, a stand-in with TLS and a token, takes the service.

Fields: kserve v0.16 `config/crd/minimal/serving.kserve.io_inferenceservices.yaml` keeps them all;
`pkg/apis/serving/v1beta1/component.go` ComponentExtensionSpec has `canaryTrafficPercent`,
`predictor_model.go` ModelSpec `modelFormat` and `storageUri`. No KServe ran.
"""

import datetime
import http.server
import ipaddress
import json
import ssl
import threading
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from kubernetes.config import incluster_config
from tfx.dsl.components.common.importer import Importer
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline
from tfx.types.standard_artifacts import PushedModel

from penstock.components.errors import DataError, UsageError
from penstock.components.gates import kserve
from penstock.components.gates.options import KServeOptions


def certificate(folder):
    """A certificate of 127.0.0.1 that signs itself, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stand-in")])
    now = datetime.datetime.now(datetime.timezone.utc)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = folder / "server.pem"
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path, made.public_bytes(serialization.Encoding.PEM)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_PATCH(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, self.headers, body))
        status, answer = self.server.answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def api(tmp_path, monkeypatch):
    """The API server, and this process as in a pod of its cluster."""
    pem, public = certificate(tmp_path)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.asked, server.answer = [], (200, {})
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("a-token")
    (account / "ca.crt").write_bytes(public)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(account / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(account / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.server_port))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


CHURN = KServeOptions(
    name="churn", namespace="team-a", canary_percent=10, storage="pvc://penstock/runs/churn/kserve"
)
SERVICE = kserve.manifest(CHURN, "7")


def test_kserve_canary_is_applied_with_the_pods_account(api):
    kserve.apply(SERVICE)
    ((path, headers, body),) = api.asked
    assert path == (
        "/apis/serving.kserve.io/v1beta1/namespaces/team-a/inferenceservices/churn"
        "?fieldManager=penstock&force=true"
    )
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
    """A field that is left out is removed by a server-side apply of the same manager."""
    service = kserve.manifest(replace(CHURN, canary_percent=100), "7")
    predictor = service["spec"]["predictor"]
    assert "canaryTrafficPercent" not in predictor


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((404, {}), "the cluster has no KServe (serving.kserve.io/v1beta1), or no such namespace"),
        ((403, {}), "the pod's account may not patch it; k8s/components/kserve has the Role"),
        ((422, {"message": "no\n such storage"}), "refused (422): no such storage"),
    ],
)
def test_kserve_refusal_is_one_line(api, answer, told):
    api.answer = answer
    with pytest.raises(DataError) as error:
        kserve.apply(SERVICE)
    assert str(error.value) == f"InferenceService team-a/churn: {told}"


def test_kserve_token_is_not_sent_to_another_certificate(api, tmp_path):
    (tmp_path / "other").mkdir()
    _, public = certificate(tmp_path / "other")
    (tmp_path / "account" / "ca.crt").write_bytes(public)
    with pytest.raises(DataError, match=r"^InferenceService team-a/churn: .*CERTIFICATE_VERIFY_F"):
        kserve.apply(SERVICE)
    assert api.asked == []


def push(root, **properties):
    """What the node puts below `kserve`, by TFX's own runner."""
    (root / "pushed").mkdir()
    (root / "pushed" / "saved_model.pb").write_text("a model")
    model = Importer(f"{root}/pushed", PushedModel, custom_properties=properties).with_id("pushed")
    node = kserve.KServePush(
        pushed=model.outputs["result"],
        options=KServeOptions(
            name="churn",
            namespace="team-a",
            folder=f"{root}/kserve",
            storage="pvc://penstock/kserve",
        ),
    )
    LocalDagRunner().run(
        Pipeline(
            "p",
            f"{root}/p",
            components=[model, node],
            metadata_connection_config=sqlite_metadata_connection_config(f"{root}/m.sqlite"),
        )
    )
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
    assert api.asked == []


def test_options_outside_their_range_are_refused():
    with pytest.raises(UsageError, match=r"^kserve.name must be a name in Kubernetes, got 'A b'$"):
        KServeOptions(name="A b")
    with pytest.raises(UsageError, match=r"^`canary_percent` must be within 1..100, got 0$"):
        KServeOptions(canary_percent=0)
