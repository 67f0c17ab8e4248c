"""The manifests: valid, as strict as the docs say, and consistent with `penstock compile`."""

import os
import re
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

from penstock.components.engine.options import EngineOptions
from penstock.pipelines.cli.main import app
from penstock.pipelines.kubeflow.placement import Placement, read_placement
from penstock.pipelines.kubeflow.pod import RUN_LABELS
from penstock.pipelines.kubeflow.resources import MySqlSecret, Volume
from penstock.pipelines.runs.metadata_store import MYSQL_PASSWORD, MYSQL_USER, MySqlStore
from tests.k8s.conftest import PAGES, snippet

K8S = Path(__file__).parents[2] / "k8s"
OVERLAYS = ("gpu", "profile", "rwx", "single-node")
# Overlays for a namespace that is shared with other users.
SHARED = ("profile", "single-node")
RUNS = {"pipelines.kubeflow.org/v2_component": "true"}


@pytest.mark.parametrize("version", ["1.29", "1.33", "1.36"])
def test_every_object_is_valid_for_kubernetes(overlays, version):
    different = {str(one): one for objects in overlays.values() for one in objects}
    for one in different.values():
        kubernetes_validate.validate(one, version, strict=True)


def test_every_file_is_used():
    used = set()
    for file in K8S.rglob("kustomization.yaml"):
        plan = yaml.safe_load(file.read_text())
        patches = [patch["path"] for patch in plan.get("patches", ()) if "path" in patch]
        names = [*plan.get("resources", ()), *patches]
        used |= {(file.parent / name).resolve() for name in (*names, *plan.get("components", ()))}
    for folder in ("base", "components", "overlays"):
        for file in (K8S / folder).rglob("*.yaml"):
            if file.name not in ("kustomization.yaml", "placement.yaml"):
                assert file.resolve() in used, file
    # Components that a user may add to an overlay.
    used |= {K8S / "components" / name for name in ("internet", "kserve", "workers")}
    assert {path.resolve() for path in (K8S / "components").iterdir()} <= used


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_our_own_pods_fit_pod_security_restricted(overlays, overlay):
    templates = overlays[overlay].templates()
    assert templates
    for name, template in templates.items():
        # Kubeflow's profile controller gives a namespace the label `istio-injection: enabled`. KFP
        # excludes the pods of runs from the injection (v2_template.go); all other pods must exclude
        # themselves.
        assert template["metadata"]["labels"]["sidecar.istio.io/inject"] == "false", name
        spec = template["spec"]
        context = spec["securityContext"]
        assert context["runAsNonRoot"] is True, name
        assert context["runAsUser"] > 0, name
        assert context["fsGroup"] == context["runAsUser"]  # else a new volume belongs to root
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert spec["automountServiceAccountToken"] is False, name
        assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers"} & spec.keys(), name
        for volume in spec.get("volumes", ()):
            assert volume.keys() - {"name"} <= {"emptyDir", "persistentVolumeClaim"}, name
    for container in overlays[overlay].containers():
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        for kind in ("requests", "limits"):
            assert container["resources"][kind].keys() == {"cpu", "memory"}
        assert not any("hostPort" in port for port in container.get("ports", ()))
        assert re.fullmatch(r"[\w./-]+@sha256:[0-9a-f]{64}", container["image"])


def test_kustomization_of_the_quickstart_sets_images_and_namespace_of_all_objects(render, tmp_path):
    """The `namespace` in an overlay's kustomization does not reach components that a user adds."""
    (tmp_path / "penstock").symlink_to(K8S.parent)
    (mine := tmp_path / "my-cluster").mkdir()
    blocks = re.findall(r"```yaml\n(.*?)```", PAGES, re.DOTALL)
    (block,) = (one for one in blocks if "# my-cluster/kustomization.yaml" in one)
    plan = yaml.safe_load(block) | {"components": ["../penstock/k8s/components/internet"]}
    (mine / "kustomization.yaml").write_text(yaml.dump(plan))
    (mine / "mariadb.yaml").write_text(snippet("# my-cluster/mariadb.yaml"))
    objects = render(mine)
    assert {container["image"] for container in objects.containers()} == {
        "REGISTRY/penstock@sha256:...",
        "docker.io/library/mariadb@sha256:...",
    }
    spaces = {one["metadata"].get("namespace") for one in objects if one["kind"] != "Namespace"}
    assert spaces == {"penstock"}
    # If a patch begins on the line of `patch:`, kustomize reads it only as JSON.
    for text in re.findall(r"^ *patch: (.*)$", "".join(blocks), re.MULTILINE):
        assert text == "|"


def test_flink_cluster_fits_the_engine_options():
    flink, jobs, service, policy, egress = yaml.safe_load_all(snippet("kind: FlinkDeployment"))
    for one in (jobs, service, policy, egress):
        kubernetes_validate.validate(one, "1.33", strict=True)
    engine, flink = EngineOptions(), flink["spec"]
    assert flink["flinkVersion"] == f"v{engine.flink_version}".replace(".", "_")
    assert flink["image"].startswith(f"docker.io/library/flink:{engine.flink_version}-")
    beside = flink["taskManager"]["podTemplate"]["spec"]
    main, pool = beside["containers"]
    # The securityContext of the main container is in the podTemplate for all pods. So the operator
    # must merge that podTemplate's containers with those of the task managers' podTemplate by name.
    assert main.keys() == {"name", "env", "volumeMounts"}
    by_name = "kubernetes.operator.pod-template.merge-arrays-by-name"
    assert flink["flinkConfiguration"][by_name] == "true"
    assert pool["args"] == [f"--service_port={engine.worker_pool.partition(':')[2]}"]
    assert pool["volumeMounts"][0]["mountPath"] == Volume("penstock").mount_path
    template = jobs["spec"]["template"]
    for container in (*beside["initContainers"], pool, *template["spec"]["containers"]):
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
    labels = {"penstock/flink": "true"}
    for pod in (flink["podTemplate"], template):
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert (RUNS | labels).items() <= pod["metadata"]["labels"].items()
    assert policy["spec"]["podSelector"] == {"matchLabels": labels}
    assert egress["spec"]["egress"] == [{"to": [{"podSelector": {"matchLabels": labels}}]}]
    # Any tenant may give a pod the operator's label, but cannot put it into the operator's
    # namespace.
    operator = policy["spec"]["ingress"][2]
    assert operator["from"][0].keys() == {"namespaceSelector", "podSelector"}


def test_no_secret_is_in_git(overlays):
    for folder in ("base", "components", "overlays"):
        for file in (K8S / folder).rglob("*.yaml"):
            for one in yaml.safe_load_all(file.read_text()):
                assert one.get("kind") != "Secret", file
                assert "secretGenerator" not in one, file
    for container in overlays["gpu"].containers():
        for variable in container.get("env", ()):
            if re.search("PASSWORD|USER", variable["name"]):
                assert variable.keys() == {"name", "valueFrom"}


@pytest.mark.parametrize("overlay", [name for name in OVERLAYS if name not in SHARED])
def test_own_namespace_denies_by_default_and_is_restricted(overlays, overlay):
    objects = overlays[overlay]
    labels = objects.named("Namespace")["metadata"]["labels"]
    for mode in ("enforce", "warn", "audit"):
        assert labels[f"pod-security.kubernetes.io/{mode}"] == "restricted"
    # The policies of KFP's servers (kubeflow/manifests common/kubeflow-namespace/base) admit
    # namespaces with this label; the profile controller adds the label only if it is absent.
    assert labels["app.kubernetes.io/part-of"] == "kubeflow-profile"
    deny = objects.named("NetworkPolicy", "default-deny")["spec"]
    assert deny == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert objects.named("ServiceAccount")["automountServiceAccountToken"] is False
    for one in objects:
        if one["kind"] not in ("Namespace", "PersistentVolume"):
            assert one["metadata"]["namespace"] == "penstock", one["kind"]


def egress(overlays):
    """Yields (name of the policy, rule) for each egress rule of the overlays."""
    for one in (one for objects in overlays.values() for one in objects):
        if one["kind"] == "NetworkPolicy":
            for rule in one["spec"].get("egress", ()):
                yield one["metadata"]["name"], rule


def test_dns_is_reachable_where_it_is_local_to_the_node(overlays):
    """NodeLocal DNS listens on 169.254.20.10, which a selector of pods in kube-system misses."""
    for _, rule in egress(overlays):
        if "to" in rule and {"protocol": "UDP", "port": 53} in rule.get("ports", ()):
            assert {"ipBlock": {"cidr": "169.254.20.10/32"}} in rule["to"]


def users_own(render, tmp_path, **changes):
    """The objects of a user's kustomization, next to a symbolic link to the repository."""
    (tmp_path / "penstock").symlink_to(K8S.parent)
    kind = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    (tmp_path / "kustomization.yaml").write_text(yaml.dump({**kind, **changes}))
    return render(tmp_path)


def test_egress_of_runs_is_limited_to_what_they_use(overlays, render, tmp_path):
    """Runs reach DNS, KFP and, in private networks, the Kubernetes API.

    They reach the internet only with the kustomize component `internet`.
    """
    for name, rule in egress(overlays):
        assert "to" in rule or name == "penstock-runs"
        for to in rule.get("to", ()):
            assert to.get("ipBlock", {}).get("cidr") != "0.0.0.0/0" or name == "bucket"
    objects = users_own(
        render,
        tmp_path,
        resources=["penstock/k8s/overlays/rwx"],
        components=["penstock/k8s/components/internet"],
        namespace="penstock",
    )
    (rule,) = objects.named("NetworkPolicy", "runs-to-internet")["spec"]["egress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 443}]
    assert "10.0.0.0/8" in rule["to"][0]["ipBlock"]["except"]


def test_each_tenant_has_its_own_volume_and_database(render, tmp_path):
    objects = users_own(
        render, tmp_path, resources=["penstock/k8s/overlays/rwx"], namespace="team-a"
    )
    assert objects.named("Namespace", "team-a")
    for one in objects:
        if one["kind"] != "Namespace":
            assert one["metadata"]["namespace"] == "team-a", one
    for policy in (one for one in objects if one["kind"] == "NetworkPolicy"):
        for rule in policy["spec"].get("ingress", ()):
            # Without a namespaceSelector, a podSelector selects only pods of the same namespace.
            assert all(peer.keys() == {"podSelector"} for peer in rule["from"])


def test_prune_job_runs_an_existing_command():
    job = yaml.safe_load(snippet("name: penstock-prune"))
    for version in ("1.29", "1.36"):
        kubernetes_validate.validate(job, version, strict=True)
    template = job["spec"]["jobTemplate"]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    names = [variable["name"] for variable in container["env"]]
    assert names == [MYSQL_USER, MYSQL_PASSWORD]
    assert template["metadata"]["labels"]["penstock/mysql-client"] == "true"
    command, *arguments = container["command"]
    assert command == "penstock"
    done = CliRunner().invoke(app, arguments, env=dict.fromkeys(names, ""))
    # The command fails only at the login, because the environment has no user and password.
    assert str(done.exception).startswith(f"set {MYSQL_USER} in the environment to log in to mysql")


def test_kserve_role_may_create_and_patch_but_not_read(render, tmp_path):
    components = ["penstock/k8s/components/kserve"]
    resources = ["penstock/k8s/overlays/rwx"]
    objects = users_own(render, tmp_path, resources=resources, components=components)
    for kind in ("Role", "RoleBinding"):
        kubernetes_validate.validate(objects.named(kind, "penstock-kserve"), "1.33", strict=True)
    (rule,) = objects.named("Role", "penstock-kserve")["rules"]
    assert (rule["resources"], rule["verbs"]) == (["inferenceservices"], ["create", "patch"])
    (account,) = objects.named("RoleBinding", "penstock-kserve")["subjects"]
    assert account["name"] == "penstock-runner"


def test_role_of_runs_is_what_kfp_and_argo_need(overlays):
    """The code of Argo and of KFP shows which rights the pods of runs need.

    In argo-workflows v4.1, `workflow/executor/taskresult.go` creates and patches
    workflowtaskresults. In `backend/src/v2` of pipelines 2.17, `config/env.go` reads the configmap
    kfp-launcher, `objectstore` reads the secret that it names, `component/launcher_v2.go` reads the
    launcher's pod, and `driver` reads the workflow.
    """
    for name, objects in overlays.items():
        rules = objects.named("Role", "penstock-runner")["rules"]
        allowed = {
            (group, resource, *rule["verbs"]): rule.get("resourceNames", [])
            for rule in rules
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        }
        assert allowed == {
            ("argoproj.io", "workflowtaskresults", "create", "patch"): [],
            ("argoproj.io", "workflows", "get"): [],
            ("", "pods", "get"): [],
            ("", "configmaps", "get"): ["kfp-launcher"],
            ("", "secrets", "get"): ["mlpipeline-minio-artifact"],
        }, name


def test_backup_job_restores_its_own_dump(overlays, tmp_path):
    (job,) = overlays["rwx"].pods()["penstock-mysql-backup"]["containers"]
    client = tmp_path / "mariadb"
    client.write_text(f'#!/bin/sh\necho "$@"; cat > {tmp_path}/restored\n')
    (dump := tmp_path / "mariadb-dump").write_text("#!/bin/sh\necho 'CREATE TABLE one;'\n")
    # `mariadb-admin ping` waits until the network policies let the new pod connect.
    (admin := tmp_path / "mariadb-admin").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/pings\n')
    for file in (client, dump, admin):
        file.chmod(0o755)
    login = {"MARIADB_HOST": "db", "MARIADB_USER": "me", "MARIADB_DATABASE": "penstock"}
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "FOLDER": str(tmp_path / "dumps"), **login}

    def run(**more):
        command = [*job["command"], *job["args"]]
        return subprocess.run(command, env=env | more, capture_output=True, text=True, check=False)

    file, _, size = run().stdout.partition(": ")
    assert re.fullmatch(r"\d+ bytes\n", size)
    restored = run(RESTORE=Path(file).name)
    assert restored.stdout == f"--host=db --user=me penstock\n{file}: restored\n"
    assert (tmp_path / "restored").read_text() == "CREATE TABLE one;\n"
    assert run(RESTORE="gone.sql.gz").returncode == 1
    # From a truncated dump, MariaDB would load the part that is there.
    (tmp_path / "restored").unlink()
    (tmp_path / "dumps/cut.sql.gz").write_bytes(Path(file).read_bytes()[:-4])
    assert run(RESTORE="cut.sql.gz").returncode == 1
    assert not (tmp_path / "restored").exists()
    pings = (tmp_path / "pings").read_text()
    assert pings == 4 * "--host=db --user=me --wait=12 --force ping\n"


def test_workflow_defaults_set_what_kfp_has_no_field_for():
    """Pipelines 2.17's kubernetes_executor_config.proto lacks these fields; Argo has all of them.

    The names are those of WorkflowSpec, TTLStrategy and RetryStrategy in `workflow_types.go` of
    argo-workflows v4.1. Argo merges the defaults strategically (MergeTo in
    `workflow/util/merge.go`), so the securityContext that KFP sets remains (runAsNonRoot,
    seccompProfile; argocompiler/argo.go).
    """
    patch = yaml.safe_load((K8S / "kfp/workflow-defaults.yaml").read_text())
    spec = yaml.safe_load(patch["data"]["workflowDefaults"])["spec"]
    assert spec.keys() == {
        *("podPriorityClassName", "securityContext", "templateDefaults", "ttlStrategy"),
    }
    priority = yaml.safe_load((K8S / "kfp/priority-class.yaml").read_text())
    assert spec["podPriorityClassName"] == priority["metadata"]["name"]
    assert spec["securityContext"]["fsGroup"] == Placement().run_as_user
    pod = {"containers": [{"name": "main", "image": "x"}]}
    pod["securityContext"] = spec["securityContext"]
    named = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod}
    for one in (priority, named):
        kubernetes_validate.validate(one, "1.33", strict=True)
    # In Argo's `operator.go` (processNodeRetries), the policy OnError does not retry failures, and
    # OnFailure does not retry errors. A failed DAG has no message: without the expression, Argo
    # would retry all tasks of the DAG, at each of the three levels of DAGs in a compiled run.
    retry = spec["templateDefaults"]["retryStrategy"]
    assert (retry["retryPolicy"], retry["expression"]) == ("Always", 'lastRetry.message != ""')


def test_overlays_of_shared_namespaces_bind_pods_of_runs_only(overlays):
    """Others' notebooks, model servers and runs in the namespace are not restricted."""
    server, clients = (
        {"app.kubernetes.io/name": "penstock-mysql"},
        {"penstock/mysql-client": "true"},
    )
    mysql = {"mysql-from-runs": server, "clients-to-mysql": clients}
    for overlay, others in (("profile", mysql), ("single-node", {})):
        kinds = {one["kind"] for one in overlays[overlay]}
        assert not kinds & {"Namespace", "ResourceQuota", "LimitRange"}
        selected = {
            one["metadata"]["name"]: one["spec"]["podSelector"]["matchLabels"]
            for one in overlays[overlay]
            if one["kind"] == "NetworkPolicy"
        }
        # The label v2_component alone would also select other users' runs: KFP gives it to all.
        assert selected == {"penstock-runs": RUN_LABELS, **others}
    assert {one["metadata"]["namespace"] for one in overlays["single-node"]} == {"kubeflow"}


def test_only_runs_and_clients_reach_mysql(overlays):
    objects = overlays["rwx"]
    to, of = (objects.named("NetworkPolicy", n) for n in ("runs-to-mysql", "mysql-from-runs"))
    labels = {"app.kubernetes.io/name": "penstock-mysql"}
    server = objects.named("StatefulSet", "penstock-mysql")["spec"]["template"]["metadata"]
    assert labels.items() <= server["labels"].items()
    service = objects.named("Service", "penstock-mysql")["spec"]
    assert to["spec"]["podSelector"]["matchLabels"] == RUNS
    assert to["spec"]["egress"][0]["to"] == [{"podSelector": {"matchLabels": labels}}]
    assert of["spec"]["podSelector"]["matchLabels"] == service["selector"] == labels
    client = {"penstock/mysql-client": "true"}
    backup = objects.templates()["penstock-mysql-backup"]["metadata"]
    assert client.items() <= backup["labels"].items()
    assert of["spec"]["ingress"][0]["from"] == [
        {"podSelector": {"matchLabels": labels}} for labels in (RUNS, client)
    ]
    for rule in (to["spec"]["egress"][0], of["spec"]["ingress"][0]):
        assert rule["ports"] == [{"protocol": "TCP", "port": service["ports"][0]["port"]}]


def test_no_accelerator_without_the_component(overlays):
    gpu = read_placement(K8S / "overlays/gpu/placement.yaml").gpu
    assert (gpu.resource, gpu.count) == ("nvidia.com/gpu", 1)
    allowed = {
        name: objects.named("ResourceQuota")["spec"]["hard"]["requests.nvidia.com/gpu"]
        for name, objects in overlays.items()
        if name not in SHARED
    }
    assert allowed == {"gpu": "1", "rwx": "0"}


# The objects of an overlay must agree with its `placement.yaml` and with the defaults in the code.


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_placement_of_an_overlay_fits_its_objects(overlays, overlay):
    objects = overlays[overlay]
    placement = read_placement(K8S / "overlays" / overlay / "placement.yaml")
    assert placement.volume == Volume()
    assert objects.named("PersistentVolumeClaim", placement.volume.claim)
    check = objects.pods()["penstock-volume-check"]
    (mount,) = check["containers"][0]["volumeMounts"]
    assert mount["mountPath"] == placement.volume.mount_path
    assert check["volumes"][0]["persistentVolumeClaim"]["claimName"] == placement.volume.claim
    context = check["securityContext"]
    assert context["runAsUser"] == context["runAsGroup"] == placement.run_as_user
    assert context["fsGroup"] == placement.run_as_user
    has_mysql = any(one["kind"] == "StatefulSet" for one in objects)
    assert (placement.metadata_mysql is not None) == has_mysql
    if has_mysql:
        _assert_mysql_fits(objects, placement)
    _assert_within_limits(objects, placement)


def _assert_mysql_fits(objects, placement):
    store, secret = placement.metadata_mysql, placement.mysql_secret
    service = objects.named("Service", store.host)["spec"]
    assert service["ports"][0]["port"] == store.port == MySqlStore.port
    assert secret == MySqlSecret()
    spec = objects.pods()[store.host]
    (server,) = spec["containers"]
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= server.keys()
    # With snapshot isolation, nodes that run side by side fail: "Record has changed since last read
    # in table".
    assert "--loose-innodb-snapshot-isolation=OFF" in server["args"]
    given = {variable["name"]: variable for variable in server["env"]}
    assert given["MARIADB_DATABASE"]["value"] == store.database
    for variable, key in (("USER", secret.user_key), ("PASSWORD", secret.password_key)):
        reference = given[f"MARIADB_{variable}"]["valueFrom"]["secretKeyRef"]
        assert reference == {"name": secret.name, "key": key}


def _assert_within_limits(objects, placement):
    limits = [one for one in objects if one["kind"] == "LimitRange"]
    for one in limits:
        most = one["spec"]["limits"][0]["max"]
        for node in ("Any", *placement.nodes):
            resources = placement.resources_of(node)
            assert float(resources.cpu_limit) <= float(most["cpu"])
            assert resources.memory_limit.endswith("Gi")
            assert int(resources.memory_limit[:-2]) <= int(most["memory"][:-2])


@pytest.mark.parametrize("driver", ["gcsfuse.csi.storage.gke.io", "ru.yandex.s3.csi"])
def test_the_snippet_of_a_bucket_is_bound_to_the_claim(driver, render, tmp_path):
    (block,) = [b for b in re.findall(r"```yaml\n(.*?)```", PAGES, re.DOTALL) if driver in b]
    volume = yaml.safe_load(block)
    kubernetes_validate.validate(volume, "1.33", strict=True)
    assert volume["spec"]["claimRef"] == {"namespace": "penstock", "name": "penstock"}
    assert volume["spec"]["storageClassName"] == volume["metadata"]["name"] == "penstock-bucket"
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


def test_reference_explains_every_object(overlays):
    for objects in overlays.values():
        for one in objects:
            assert f"`{one['kind']} {one['metadata']['name']}`" in PAGES
