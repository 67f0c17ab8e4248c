import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.kubeflow.placement import Placement, read_placement
from penstock.pipelines.kubeflow.resources import Gpu, Resources, Toleration


def _read(tmp_path, text):
    file = tmp_path / "placement.yaml"
    file.write_text(text)
    return read_placement(file)


def test_placement_is_read_from_yaml(tmp_path):
    placement = _read(
        tmp_path,
        """
        pipeline_root: gs://bucket/runs
        volume:
        metadata_mysql: {host: mysql.penstock.svc}
        resources: {memory_request: 4Gi}
        nodes:
          my.Transform: {cpu_request: 4, cpu_limit: "8"}
        gpu:
          count: 2
          node_selector: {cloud.google.com/gke-accelerator: nvidia-l4}
          tolerations:
          - {key: nvidia.com/gpu, operator: Equal, value: present, effect: NoSchedule}
        """,
    )

    assert placement.volume is None
    assert placement.metadata_mysql.host == "mysql.penstock.svc"
    assert placement.resources_of("Trainer") == Resources(memory_request="4Gi")
    assert placement.resources_of("my.Transform") == Resources("4", "8", "4Gi", "8Gi")
    assert placement.gpu == Gpu(
        count=2,
        node_selector={"cloud.google.com/gke-accelerator": "nvidia-l4"},
        tolerations=(Toleration("nvidia.com/gpu", "Equal", "present", "NoSchedule"),),
    )


def test_the_gpu_is_for_trainers_or_for_the_nodes_named():
    assert Gpu().is_for("Train", "tfx.components.trainer.component.Trainer")
    assert not Gpu().is_for("Trainer", "tfx.components.transform.component.Transform")
    assert Gpu().is_for("Search", "tfx.components.tuner.component.Tuner")
    assert not Placement(workers=2).has_workers("Search", "tfx.components.tuner.component.Tuner")
    assert Gpu(nodes=("Fit",)).is_for("Fit", "mine.Fit")
    assert not Gpu(nodes=("Fit",)).is_for("Train", "tfx.components.trainer.component.Trainer")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpus: {}", "gpus: no such option; did you mean 'gpu'?"),
        ("resources: {memory_limit: 8GB}", "memory_limit must be 2Gi or 512Mi, got '8GB'"),
        ("resources: {cpu_limit: two}", "cpu_limit must be 2, 0.5 or 500m, got 'two'"),
        ("resources: {cpu_request: 8}", "cpu_request 8 is above cpu_limit 4"),
        ("nodes: {a: {memory_request: 9Gi}}", "memory_request 9Gi is above memory_limit 8Gi"),
        ("nodes: {a: 4Gi}", "nodes.a: expected a group of options, got '4Gi'"),
        ("pipeline_root: /data", "pipeline_root must lie below the volume at /penstock"),
        ("pipeline_root: /penstock-old", "pipeline_root must lie below the volume at /penstock"),
        ("volume:", "pipeline_root is the path '/penstock/runs', but there is no volume"),
        ("metadata_sqlite: gs://b/m.db", "metadata_sqlite must be a file on the volume"),
        ("metadata_mysql: {port: 3306}", "a MySQL host is a name or an address, got ''"),
        ("metadata_mysql: {host: 'u:p@h'}", "a MySQL host is a name or an address"),
        ("run_as_user: 0", "run_as_user must be 1 or more, not root, got 0"),
        ("pod_annotations: {a/b: yes}", "pod_annotations: quote the value of a/b, True"),
        ("pod_labels: {a: 1}", "pod_labels: quote the value of a, 1"),
        ("gpu: {count: 0}", "gpu: `count` must be at least 1, got 0"),
        ("gpu: {node_selector: {a: true}}", "gpu.node_selector: quote the value of a, True"),
        ("gpu: {tolerations: [{effect: Never}]}", "must be one of NoSchedule"),
        ("retry: {wait_seconds: 9, total_seconds: 9}", "retry needs 0 < wait_seconds < total_sec"),
        # Argo 3.5 to 4.0 reads the factor with intstr.Int32, and fails the node if the factor is a
        # fraction.
        ("retry: {factor: 1.5}", "retry.factor: expected a whole number, got 1.5"),
        ("retry: {max_wait_seconds: 600}", "retry.max_wait_seconds: no such option"),
        (
            "nodes: {a: {timeout_seconds: 0}}",
            "nodes.a: `timeout_seconds` must be at least 1, got 0",
        ),
        ("secret_env: {My_S: {a: B}}", "secret_env.My_S must be a name of a Kubernetes object"),
        ("secret_env: {db: A}", "secret_env.db: expected KEY: VARIABLE for each key, got 'A'"),
        ("image_pull_secrets: [My_S]", "image_pull_secrets must be a name of a Kubernetes object"),
        ("volume: {claim: My_Claim}", "volume.claim must be a name of a Kubernetes object"),
    ],
)
def test_wrong_placement_is_refused(tmp_path, text, message):
    with pytest.raises(UsageError) as error:
        _read(tmp_path, text)

    assert message in str(error.value)


def test_unknown_node_is_refused():
    placement = Placement(nodes={"Trainr": {}})

    with pytest.raises(UsageError, match=r"names node 'Trainr'.*; choices: Trainer, Pusher"):
        placement.check_nodes(["Trainer", "Pusher"])
