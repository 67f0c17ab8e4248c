"""Renders `k8s/` as `kubectl kustomize` does, but knows only the features that `k8s/` uses.

The result for each overlay was compared with that of kubectl 1.32 (kustomize 5.5).
"""

import copy
import re
import textwrap
from pathlib import Path

import pytest
import yaml

K8S = Path(__file__).parents[2] / "k8s"
KINDS = {
    "Kustomization": "kustomize.config.k8s.io/v1beta1",
    "Component": "kustomize.config.k8s.io/v1alpha1",
}
KEYS = {
    "apiVersion",
    "kind",
    "namespace",
    "resources",
    "components",
    "labels",
    "images",
    "patches",
}
CLUSTER_WIDE = ("Namespace", "PersistentVolume")


class Objects(list):
    """Kubernetes objects, as loaded from YAML."""

    def named(self, kind, name="penstock"):
        """The object of a kind and name."""
        (one,) = [o for o in self if (o["kind"], o["metadata"]["name"]) == (kind, name)]
        return one

    def pods(self):
        """The specification of each pod, by the name of the object that makes it."""
        return {name: template["spec"] for name, template in self.templates().items()}

    def templates(self):
        """The template of each pod, by the name of the object that makes it."""
        found = {}
        for one in self:
            spec = one.get("spec", {})
            spec = spec.get("jobTemplate", {}).get("spec", spec)
            if "template" in spec:
                found[one["metadata"]["name"]] = spec["template"]
        return found

    def containers(self):
        """All containers of all pods."""
        return [
            container
            for spec in self.pods().values()
            for container in (*spec.get("initContainers", ()), *spec["containers"])
        ]


PAGES = "\n".join(page.read_text() for page in sorted((K8S.parent / "docs/kubeflow").glob("*.md")))


def snippet(words):
    """The text of the only block of YAML in the pages that contains these words."""
    blocks = re.findall(r"( *)```yaml\n(.*?)```", PAGES, re.DOTALL)
    (text,) = (textwrap.dedent(indent + block) for indent, block in blocks if words in block)
    return text


@pytest.fixture(scope="session")
def overlays(tmp_path_factory):
    """The objects of each overlay by its name, with MariaDB if its `placement.yaml` uses MySQL."""

    def users_own(overlay):
        folder = tmp_path_factory.mktemp(overlay.name)
        (folder / "k8s").symlink_to(K8S)
        (folder / "mariadb.yaml").write_text(snippet("# my-cluster/mariadb.yaml"))
        has_mysql = "metadata_mysql" in (overlay / "placement.yaml").read_text()
        plan = {
            "apiVersion": KINDS["Kustomization"],
            "kind": "Kustomization",
            "namespace": yaml.safe_load((overlay / "kustomization.yaml").read_text())["namespace"],
            "resources": [f"k8s/overlays/{overlay.name}", *["mariadb.yaml"] * has_mysql],
            "images": [
                {"name": name, "newName": name, "digest": f"sha256:{'0' * 64}"}
                for name in ("registry.example/penstock", "docker.io/library/mariadb")
            ],
        }
        (folder / "kustomization.yaml").write_text(yaml.dump(plan))
        return rendered(folder)

    return {path.name: users_own(path) for path in sorted((K8S / "overlays").iterdir())}


@pytest.fixture(scope="session")
def render():
    """A function that takes the folder of a kustomization and returns its objects."""
    return rendered


def rendered(folder, inherited=()):
    """The objects of a kustomization; a Component changes the `inherited` objects."""
    plan = yaml.safe_load((folder / "kustomization.yaml").read_text())
    unknown = plan.keys() - KEYS
    assert not unknown, f"{folder}: this renderer knows no {unknown}"
    assert plan["apiVersion"] == KINDS[plan["kind"]], folder
    objects = Objects(copy.deepcopy(inherited))
    for name in plan.get("resources", ()):
        path = folder / name
        objects += rendered(path) if path.is_dir() else read(path)
    for name in plan.get("components", ()):
        objects = rendered(folder / name, objects)
    for patch in plan.get("patches", ()):
        assert patch.keys() == {"path"}, f"{folder}: {patch}"
        (change,) = read(folder / patch["path"])
        (target,) = [o for o in objects if identity(o) == identity(change)]
        merge(target, change, str(folder))
    for pairs in plan.get("labels", ()):
        assert pairs.keys() == {"pairs"}, f"{folder}: {pairs}"
        for one in objects:
            one["metadata"].setdefault("labels", {}).update(pairs["pairs"])
    if "namespace" in plan:
        put_into(objects, plan["namespace"])
    for image in plan.get("images", ()):
        assert image.keys() == {"name", "newName", "digest"}, f"{folder}: {image}"
        for container in objects.containers():
            if container["image"].partition("@")[0] == image["name"]:
                container["image"] = f"{image['newName']}@{image['digest']}"
    names = [identity(one) for one in objects]
    assert len(set(names)) == len(names), f"{folder}: an object twice"
    return objects


def read(file):
    """The objects of a file."""
    return [document for document in yaml.safe_load_all(file.read_text()) if document]


def identity(one):
    """Key that distinguishes an object from others."""
    return one["apiVersion"], one["kind"], one["metadata"]["name"]


def merge(target, change, where):
    """A strategic merge that refuses to merge lists, whose merge keys only Kubernetes knows."""
    for key, value in change.items():
        assert not key.startswith("$"), f"{where}: this renderer knows no {key}"
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value, where)
        else:
            replaced = isinstance(target.get(key), list)
            assert not replaced or key == "accessModes", f"{where}: {key} is a list"
            target[key] = value


def put_into(objects, namespace):
    """Sets the namespace of objects and of references to their service accounts."""
    accounts = {one["metadata"]["name"] for one in objects if one["kind"] == "ServiceAccount"}
    for one in objects:
        if one["kind"] == "Namespace":
            one["metadata"]["name"] = namespace
        if one["kind"] not in CLUSTER_WIDE:
            one["metadata"]["namespace"] = namespace
        for subject in one.get("subjects", ()):
            if subject["kind"] == "ServiceAccount" and subject["name"] in accounts:
                subject["namespace"] = namespace
