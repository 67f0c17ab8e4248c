"""`penstock doctor` against stand-ins, on loopback, of KFP's API and of the Kubernetes API.

The second is neither a server of Kubernetes nor its authoriser: it answers GET requests with the
objects of `objects`, and reviews of access by `refused`.
"""

import base64
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
import yaml
from kubernetes.config import kube_config

from penstock.components.errors import DataError
from penstock.pipelines.cli.doctor import command
from penstock.pipelines.kubeflow.doctor import examine
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.resources import Gpu
from penstock.pipelines.runs.metadata_store import MySqlStore
from tests.pipelines.cli.conftest import server  # noqa: F401  # a fixture

SPACE = "team-a"
PLACEMENT = Placement(metadata_mysql=MySqlStore("penstock-mysql"))


def of(path):
    return f"/api/v1/namespaces/{SPACE}/{path}"


def policy(name, labels, **spec):
    spec = {"podSelector": {"matchLabels": labels}, "policyTypes": ["Egress"], **spec}
    return {"metadata": {"name": name}, "spec": spec}


def healthy():
    keys = dict.fromkeys(("user", "password"), base64.b64encode(b"x").decode())
    return {
        "/version/": {"major": "1", "minor": "34", "gitVersion": "v1.34.4"}
        | dict.fromkeys(
            ("gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"), "x"
        ),
        of("serviceaccounts/penstock-runner"): {},
        of("secrets/penstock-mysql"): {"data": keys},
        of("secrets/mlpipeline-minio-artifact"): {},
        of("configmaps/kfp-launcher"): {"data": {"defaultPipelineRoot": "minio://mlpipeline/a"}},
        of("resourcequotas"): {"items": []},
        of("persistentvolumeclaims/penstock"): {
            "spec": {"accessModes": ["ReadWriteMany"]},
            "status": {"phase": "Bound"},
        },
        of("endpoints/penstock-mysql"): {"subsets": [{"addresses": [{"ip": "10.0.0.7"}]}]},
        f"/apis/networking.k8s.io/v1/namespaces/{SPACE}/networkpolicies": {
            "items": [policy("penstock-runs", {"penstock/run": "true"}, egress=[{}])]
        },
        f"/api/v1/namespaces/{SPACE}": {
            "metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
        },
        "/api/v1/namespaces/kube-system/services": {"items": [{"metadata": {"name": "kube-dns"}}]},
        "/api/v1/namespaces/kubeflow/configmaps/workflow-controller-configmap": {
            "data": {"workflowDefaults": "retryPolicy: Always"}
        },
    }


class _Kubernetes(BaseHTTPRequestHandler):
    def do_GET(self):  # the name that http.server calls
        path = urlsplit(self.path).path
        if any(part in path for part in self.server.hidden):
            self.answer(403, {"message": f"you may not read {path}"})
        elif path in self.server.objects:
            self.answer(200, self.server.objects[path])
        else:
            self.answer(404, {"message": f"nothing at {path}"})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.users.add(body["spec"]["user"])
        asked = body["spec"]["resourceAttributes"]["resource"]
        self.answer(201, {**body, "status": {"allowed": asked not in self.server.refused}})

    def answer(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def kubernetes(tmp_path, monkeypatch):
    stand_in = ThreadingHTTPServer(("127.0.0.1", 0), _Kubernetes)
    stand_in.objects, stand_in.hidden, stand_in.refused = healthy(), (), ()
    stand_in.users = set()
    thread = threading.Thread(target=stand_in.serve_forever, args=(0.01,))
    thread.start()
    place = f"http://127.0.0.1:{stand_in.server_port}"
    settings = {
        "clusters": [{"name": "here", "cluster": {"server": place}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "it", "context": {"cluster": "here", "user": "me"}}],
        "current-context": "it",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(settings))
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "kubeconfig"))
    yield stand_in
    stand_in.shutdown()
    thread.join()
    stand_in.server_close()


@pytest.fixture
def no_kubeconfig(tmp_path, monkeypatch):
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "missing"))


@pytest.fixture
def kfp(server):  # noqa: F811
    server.health = (200, {"multi_user": True, "tag_name": "2.17.0"})
    return server


def token(**claims):
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"header.{payload}.signature"


def look(server, placement=PLACEMENT, image=None, account="penstock-runner"):  # noqa: F811
    found = {}
    for subject, result in examine(server.host, SPACE, account, placement, image):
        found.setdefault(subject, []).append(tuple(result))
    return found


def fault(found, subject):
    [text] = [text for state, text in found[subject] if state == "fault"]
    return text


def test_healthy_server_and_namespace_have_no_fault(kfp, kubernetes):
    found = look(kfp)

    assert {state for results in found.values() for state, _ in results} == {"ok"}
    assert found["server"] == [("ok", "Kubeflow Pipelines 2.17.0, several users")]
    assert kubernetes.users == {f"system:serviceaccount:{SPACE}:penstock-runner"}
    assert len(found) == 11


def test_without_kubeconfig_the_server_is_checked_and_the_rest_is_unseen(kfp, no_kubeconfig):
    found = look(kfp)

    assert found["login"][0][0] == "ok"
    assert [state for state, _ in found["cluster"]] == ["unseen"]
    assert "no Kubernetes API to ask" in found["cluster"][0][1]


def test_objects_that_the_account_may_not_read_are_unseen_not_faults(kfp, kubernetes):
    kubernetes.hidden = ("secrets", "networkpolicies")
    found = look(kfp)

    assert "fault" not in {state for results in found.values() for state, _ in results}
    assert [state for state, _ in found["secrets"]] == ["unseen"]
    assert "you may not read" in found["policies"][0][1]
    assert found["volume"][0][0] == "ok"


@pytest.mark.parametrize(
    ("health", "state", "words"),
    [
        ({"tag_name": "2.4.1"}, "fault", "upgrade the server"),
        ({"tag_name": "2.5.0"}, "ok", "2.5.0, one user"),
        ({"tag_name": "2.99.0"}, "warning", "tested for 2.5 to 2.17"),
        ({"multi_user": False}, "warning", "unknown version"),
    ],
)
def test_version_of_the_server_is_held_against_those_tested(
    kfp, no_kubeconfig, health, state, words
):
    kfp.health = (200, health)
    [(seen, text)] = look(kfp)["server"]
    assert seen == state
    assert words in text


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"aud": ["https://kubernetes.default.svc"]}, "kubectl create token ACCOUNT --audience"),
        ({"aud": ["pipelines.kubeflow.org"], "exp": 1}, "expired"),
    ],
)
def test_token_of_another_audience_or_expired_is_a_fault(
    kfp, no_kubeconfig, monkeypatch, claims, words
):
    monkeypatch.setenv("PENSTOCK_KFP_TOKEN", token(**claims))
    assert words in fault(look(kfp), "login")


def test_minutes_left_of_a_good_token_are_said(kfp, no_kubeconfig, monkeypatch):
    good = token(aud=["pipelines.kubeflow.org"], exp=time.time() + 7_200_000)
    monkeypatch.setenv("PENSTOCK_KFP_TOKEN", good)
    [(state, text)] = look(kfp)["login"]
    assert state == "ok"
    [minutes] = re.findall(r"expires in ([\d,]+) minutes", text)
    assert 119_000 < int(minutes.replace(",", "")) <= 120_000


def test_server_that_is_not_there_is_a_fault_and_the_cluster_is_checked_all_the_same(kubernetes):
    found = dict(examine("http://127.0.0.1:1", SPACE, None, PLACEMENT, None))

    assert found["server"].state == "fault"
    assert "port-forward missing" in found["server"].text
    assert found["volume"].state == "ok"


@pytest.mark.parametrize(
    ("path", "subject", "words"),
    [
        (of("serviceaccounts/penstock-runner"), "rights", "--service-account"),
        (of("secrets/penstock-mysql"), "secrets", "--from-literal=user=... --from-literal=passw"),
        (of("secrets/mlpipeline-minio-artifact"), "store", "make the namespace a profile"),
        (of("persistentvolumeclaims/penstock"), "volume", "no claim penstock"),
    ],
)
def test_missing_object_is_a_fault_with_its_remedy(kfp, kubernetes, path, subject, words):
    del kubernetes.objects[path]
    assert words in fault(look(kfp), subject)


def test_missing_namespace_is_the_only_fault(kfp, kubernetes):
    del kubernetes.objects[f"/api/v1/namespaces/{SPACE}"]
    found = look(kfp)
    assert "make a profile" in fault(found, "namespace")
    assert set(found) == {"server", "login", "namespace"}


def test_account_without_rights_is_a_fault_that_names_them(kfp, kubernetes):
    kubernetes.refused = ("workflowtaskresults", "secrets")
    text = fault(look(kfp), "rights")
    assert "create workflowtaskresults, get secrets mlpipeline-minio-artifact" in text


def test_quota_below_the_largest_node_is_a_fault(kfp, kubernetes):
    status = {
        "hard": {"limits.memory": "12Gi", "requests.nvidia.com/gpu": "0", "pods": "60"},
        "used": {"limits.memory": "8Gi"},
    }
    quota = {"metadata": {"name": "penstock"}, "spec": {}, "status": status}
    kubernetes.objects[of("resourcequotas")] = {"items": [quota]}

    text = fault(look(kfp, Placement(gpu=Gpu())), "quota")
    assert "4294967296 of limits.memory, a node asks 8589934592" in text
    assert "0 of requests.nvidia.com/gpu, a node asks 1" in text
    assert "pods" not in text


def test_restricted_namespace_is_a_fault_before_kfp_2_16(kfp, kubernetes):
    kfp.health = (200, {"multi_user": True, "tag_name": "2.15.0"})
    text = fault(look(kfp), "policies")
    assert "kubectl label namespace team-a --overwrite" in text


def test_default_deny_without_a_policy_for_runs_is_a_fault(kfp, kubernetes):
    [name] = [path for path in kubernetes.objects if path.endswith("networkpolicies")]
    kubernetes.objects[name] = {"items": [policy("default-deny", {})]}
    assert "none lets runs reach DNS" in fault(look(kfp), "policies")


def test_metadata_service_without_a_ready_pod_is_a_fault(kfp, kubernetes):
    kubernetes.objects[of("endpoints/penstock-mysql")] = {"subsets": []}
    assert "has no ready pod" in fault(look(kfp), "metadata")


def test_missing_retry_policy_is_a_warning(kfp, kubernetes):
    del kubernetes.objects["/api/v1/namespaces/kubeflow/configmaps/workflow-controller-configmap"]
    [(state, text)] = look(kfp)["retries"]
    assert state == "warning"
    assert "workflow-defaults.yaml" in text


def test_image_without_a_registry_is_unseen(kfp, no_kubeconfig):
    assert look(kfp, image="penstock:dev")["image"][0][0] == "unseen"


def test_command_prints_a_line_per_check_and_fails_on_a_fault(kfp, no_kubeconfig, capsys):
    command(kfp.host, SPACE)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "ok",
        "ok",
        "unseen",
    ]

    kfp.health = (200, {"tag_name": "1.8.0"})
    with pytest.raises(DataError, match="1 fault would stop a run"):
        command(kfp.host, SPACE)
