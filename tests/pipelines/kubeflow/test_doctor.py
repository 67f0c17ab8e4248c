"""`penstock doctor` with stand-ins, on loopback, for KFP's API and for the Kubernetes API.

The stand-in for the Kubernetes API checks no rights; it answers GET requests with the objects in
`objects`.
"""

import base64

import pytest
from json_server import JsonServer

from penstock.components.errors import DataError
from penstock.pipelines.cli.doctor import command
from penstock.pipelines.kubeflow.doctor import examine
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.runs.metadata_store import MySqlStore
from tests.pipelines.cli.conftest import server  # noqa: F401  # a fixture

SPACE = "team-a"
PLACEMENT = Placement(metadata_mysql=MySqlStore("penstock-mysql"))


def of(path):
    return f"/api/v1/namespaces/{SPACE}/{path}"


def healthy():
    keys = dict.fromkeys(("user", "password"), base64.b64encode(b"x").decode())
    return {
        "/version/": {"major": "1", "minor": "34", "gitVersion": "v1.34.4"}
        | dict.fromkeys(
            ("gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"), "x"
        ),
        of("serviceaccounts/penstock-runner"): {},
        of("secrets/penstock-mysql"): {"data": keys},
        of("persistentvolumeclaims/penstock"): {},
    }


class Kubernetes(JsonServer):
    def __init__(self):
        super().__init__()
        self.objects, self.hidden = healthy(), ()

    def answer(self, method, path, body):
        if any(part in path for part in self.hidden):
            return 403, {"message": f"you may not read {path}"}
        if path in self.objects:
            return 200, self.objects[path]
        return 404, {"message": f"nothing at {path}"}


@pytest.fixture
def kubernetes(kubeconfig):
    stand_in = Kubernetes()
    kubeconfig(stand_in.host)
    yield stand_in
    stand_in.close()


@pytest.fixture
def no_kubeconfig(tmp_path, monkeypatch):
    place = "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(place, str(tmp_path / "missing"))


@pytest.fixture
def kfp(server):  # noqa: F811
    server.health = (200, {"multi_user": True, "tag_name": "2.17.0"})
    return server


def look(server, placement=PLACEMENT, account="penstock-runner"):  # noqa: F811
    return dict(examine(server.host, SPACE, account, placement))


def states(found):
    return {subject: state for subject, (state, _) in found.items()}


HEALTHY = dict.fromkeys(("server", "login", "account", "claim", "secret"), "ok")


def test_healthy_server_and_namespace_have_no_fault(kfp, kubernetes):
    found = look(kfp)
    assert states(found) == HEALTHY
    assert found["server"] == ("ok", "Kubeflow Pipelines 2.17.0, several users")


def test_what_the_caller_may_not_read_is_unseen_and_no_fault(kfp, kubernetes):
    kubernetes.hidden = ("secrets",)
    assert states(look(kfp)) == {**HEALTHY, "secret": "unseen"}


def test_without_kubeconfig_the_server_is_checked_and_the_rest_is_unseen(kfp, no_kubeconfig):
    found = look(kfp)
    assert states(found) == {"server": "ok", "login": "ok", "cluster": "unseen"}
    assert "no Kubernetes API to ask" in found["cluster"][1]


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
    seen, text = look(kfp)["server"]
    assert seen == state
    assert words in text


def test_server_that_is_not_there_is_a_fault_and_the_cluster_is_checked_all_the_same(kubernetes):
    found = dict(examine("http://127.0.0.1:1", SPACE, "penstock-runner", PLACEMENT))
    rest = dict.fromkeys(("account", "claim", "secret"), "ok")
    assert states(found) == {"server": "fault", **rest}
    assert "port-forward missing" in found["server"][1]


@pytest.mark.parametrize(
    ("path", "subject", "words"),
    [
        (of("serviceaccounts/penstock-runner"), "account", "--service-account"),
        (of("secrets/penstock-mysql"), "secret", "--from-literal=user=... --from-literal=passw"),
        (of("persistentvolumeclaims/penstock"), "claim", "no penstock in team-a: apply an over"),
    ],
)
def test_missing_object_is_a_fault_with_its_remedy(kfp, kubernetes, path, subject, words):
    del kubernetes.objects[path]
    state, text = look(kfp)[subject]
    assert state == "fault"
    assert words in text


def test_secret_without_a_key_is_a_fault(kfp, kubernetes):
    kubernetes.objects[of("secrets/penstock-mysql")] = {"data": {"user": "eA=="}}
    state, text = look(kfp)["secret"]
    assert (state, text.partition(":")[0]) == ("fault", "penstock-mysql lacks password")


def test_command_prints_a_line_per_check_and_fails_on_a_fault(kfp, no_kubeconfig, capsys):
    command(kfp.host, SPACE)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["ok", "ok", "unseen"]

    kfp.health = (200, {"tag_name": "1.8.0"})
    with pytest.raises(DataError, match="1 fault would stop a run"):
        command(kfp.host, SPACE)
