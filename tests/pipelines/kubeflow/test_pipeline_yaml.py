import json
from dataclasses import replace
from pathlib import Path

import pytest
from kfp import components
from tfx.components.statistics_gen.component import StatisticsGen
from tfx.dsl.component.experimental.annotations import Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.components.common.importer import Importer
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types.standard_artifacts import Examples

from penstock.pipelines.kubeflow.compiled_file import read_compiled_file
from penstock.pipelines.kubeflow.ir import compile_ir
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.plan import plan_ir
from penstock.pipelines.kubeflow.resources import (
    Affinity,
    Gpu,
    MySqlSecret,
    Resources,
    Retry,
    Toleration,
)
from penstock.pipelines.runs.metadata_store import MySqlStore
from tests.pipelines.kubeflow.placements import IMAGE, Compiled, ir_of, trainer_of

USER_CODE = Path(__file__).parents[1] / "user_code"


@component
def tell(text: Parameter[str] = "", about: Parameter[str] = ""):
    del text, about


@pytest.fixture(scope="module")
def small_plan():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(USER_CODE))
        patch.setenv("SMALL_PIPELINE_ROOT", "/data")
        from small_pipeline import create_pipeline

        return plan_ir(compile_ir(create_pipeline()))


@pytest.fixture(scope="module")
def small(small_plan, tmp_path_factory):
    return Compiled(small_plan, tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def placed(small_plan, tmp_path_factory):
    """The small pipeline with nearly every option of a placement."""
    tolerations = (Toleration("nvidia.com/gpu", "Equal", "yes", "NoSchedule"),)
    placement = Placement(
        resources=Resources("500m", "2", "1G", "2G"),
        nodes={"make_numbers": {"memory_limit": "4G"}, "Trainer": {"timeout_seconds": 3600}},
        retry=Retry(times=3, wait_seconds=10, factor=3, total_seconds=7200),
        gpu=Gpu(count=2, node_selector={"pool": "gpu"}, tolerations=tolerations),
        pod_labels={"team": "rides"},
        pod_annotations={"gke-gcsfuse/volumes": "true"},
        secret_env={"churn-db": {"user": "PENSTOCK_SQL_USER"}},
        image_pull_secrets=("registry",),
        affinity=(Affinity("zone", "In", ("a", "b")),),
        metadata_mysql=MySqlStore("fd00::5", 3307, "runs"),
        mysql_secret=MySqlSecret(tls_name="db-tls"),
    )
    return Compiled(small_plan, tmp_path_factory.mktemp("placed"), placement)


def test_tasks_are_nodes_in_dag_order(small):
    assert {name: task["taskInfo"]["name"] for name, task in small.tasks.items()} == {
        "import-schema-v1": "import_schema.v1",
        "last-schema": "last_schema",
        "make-numbers": "make.numbers",
        "trainer": "Trainer",
        "make-numbers-2": "make_numbers",
    }
    assert {name: task.get("dependentTasks", []) for name, task in small.tasks.items()} == {
        "import-schema-v1": [],
        "last-schema": ["import-schema-v1"],
        "make-numbers": ["import-schema-v1"],
        "trainer": ["make-numbers"],
        "make-numbers-2": ["last-schema", "make-numbers", "trainer"],
    }
    assert small.spec["pipelineInfo"]["name"] == "small-pipeline"


def test_task_runs_its_node_with_kfps_run_id(small):
    container = small.containers["make-numbers"]
    assert (container["image"], container["command"]) == (IMAGE, ["penstock", "node"])
    run_id = "{{$.inputs.parameters['run_id']}}"
    assert container["args"] == [
        "make.numbers",
        *("--pipeline-root", "/penstock/runs/small-pipeline"),
        *("--metadata", "/penstock/metadata.sqlite"),
        *("--run-id", run_id),
        *("--parameter", "how-many={{$.inputs.parameters['how_many']}}"),
        *("--parameter", "note={{$.inputs.parameters['note']}}"),
        *("--parameter", "scale={{$.inputs.parameters['scale']}}"),
        *("--kfp-executor-input", "{{$}}"),
        *("--ir", f"/penstock/runs/small-pipeline/definitions/{run_id}.pb"),
    ]
    inputs = small.tasks["make-numbers"]["inputs"]["parameters"]
    assert inputs["run_id"] == {"runtimeValue": {"constant": "{{$.pipeline_job_uuid}}"}}
    assert inputs["how_many"] == {"componentInputParameter": "how_many"}


def test_first_task_builds_the_definition_and_all_others_wait_for_it(tmp_path):
    nodes = [tell().with_id("a"), tell().with_id("b"), tell().with_id("c")]
    nodes[2].add_upstream_node(nodes[1])
    made = Compiled(replace(plan_ir(ir_of(*nodes)), recipe="{}"), tmp_path)
    assert made.containers["a"]["args"][-2:] == ["--recipe", "{}"]
    assert "--recipe" not in (*made.containers["b"]["args"], *made.containers["c"]["args"])
    assert made.tasks["b"]["dependentTasks"] == ["a"]
    assert made.tasks["c"]["dependentTasks"] == ["b"]


def test_runtime_parameters_are_kfp_parameters_of_the_same_type_and_default(small):
    assert small.parameters == {
        "how_many": {"parameterType": "NUMBER_INTEGER", "defaultValue": 3.0, "isOptional": True},
        "note": {"parameterType": "STRING", "defaultValue": "hello", "isOptional": True},
        "scale": {"parameterType": "NUMBER_DOUBLE", "defaultValue": 0.0, "isOptional": True},
    }


def test_a_parameter_without_default_is_required_and_one_of_several_lines_stays_whole(tmp_path):
    """kfp's own compiler writes defaults into a comment.

    There, a default of several lines makes the YAML invalid.
    """
    query = "SELECT *\nFROM trips: x\n"
    told = tell(text=RuntimeParameter("run_id", str), about=RuntimeParameter("Run.Id", str, query))
    made = Compiled(plan_ir(ir_of(told)), tmp_path)
    assert read_compiled_file(made.file).parameters == {
        "run_id_2": {"parameterType": "STRING"},
        "run_id_3": {"parameterType": "STRING", "defaultValue": query, "isOptional": True},
    }
    args = made.containers["tell"]["args"]
    assert "Run.Id={{$.inputs.parameters['run_id_3']}}" in args
    assert "run_id={{$.inputs.parameters['run_id_2']}}" in args


def test_every_task_has_limits_retries_and_the_volume_and_no_kfp_cache(small, placed):
    """Each task sets `backoffMaxDuration`: if a task has none, KFP writes 0, so nothing is retried.

    `backoffMaxDuration` becomes Argo's `maxDuration`, which counts from the start of the first
    attempt.

    See pipelines 2.17 argocompiler/container.go:423 (default "0") and :644, and argo 4.0
    workflow/controller/operator.go:1080 (deadline = first child's start + maxDuration).
    """
    by_default = {task["retryPolicy"]["backoffMaxDuration"] for task in small.tasks.values()}
    assert by_default == {"2592000s"}  # longer than any training
    assert not any("secretAsEnv" in pod for pod in small.pods.values())
    for name, task in placed.tasks.items():
        assert task["cachingOptions"] == {}
        assert task["retryPolicy"] == {
            "maxRetryCount": 3,
            "backoffDuration": "10s",
            "backoffFactor": 3.0,
            "backoffMaxDuration": "7200s",
        }
        found = placed.containers[name]["resources"]
        limits = [
            found[f"{kind}{end}"] for kind in ("cpu", "memory") for end in ("Request", "Limit")
        ]
        assert limits == [0.5, 2.0, 1.0, 4.0 if name == "make-numbers-2" else 2.0]
        (mount,) = placed.pods[name]["pvcMount"]
        assert (mount["constant"], mount["mountPath"]) == ("penstock", "/penstock")


def test_artifacts_of_tfx_are_inputs_and_outputs_of_tasks(small):
    assert small.outputs() == {
        "import-schema-v1": {"result": "system.Artifact"},
        "last-schema": {},
        "make-numbers": {"numbers": "system.Dataset", "total": "system.Artifact"},
        "trainer": {"model": "system.Model"},
        "make-numbers-2": {"pushed": "system.Model"},
    }
    read = {
        name: {
            one: tuple(given["taskOutputArtifact"].values())
            for one, given in task["inputs"].get("artifacts", {}).items()
        }
        for name, task in small.tasks.items()
    }
    assert read == {
        "import-schema-v1": {},
        "last-schema": {},
        "make-numbers": {"import_schema_v1_result": ("result", "import-schema-v1")},
        "trainer": {"make_numbers_numbers": ("numbers", "make-numbers")},
        # `total` is an input because the node's condition reads it.
        "make-numbers-2": {
            "make_numbers_total": ("total", "make-numbers"),
            "trainer_model": ("model", "trainer"),
        },
    }


def test_statistics_are_shown_as_html_and_a_training_as_metrics(tmp_path):
    examples = Importer("/data", Examples).with_id("import")
    statistics = StatisticsGen(examples=examples.outputs["result"])
    ir = ir_of(examples, statistics, trainer_of(examples))
    shown = Compiled(plan_ir(ir), tmp_path).outputs()
    assert shown["statisticsgen"]["html"] == "system.HTML"
    assert shown["trainer"]["metrics"] == "system.Metrics"


def test_only_the_trainer_is_on_a_gpu(placed):
    accelerator = placed.containers["trainer"]["resources"]["accelerator"]
    assert (accelerator["type"], accelerator["count"]) == ("nvidia.com/gpu", "2")
    assert placed.pods["trainer"]["nodeSelector"] == {"labels": {"pool": "gpu"}}
    assert placed.pods["trainer"]["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    ]
    for name in placed.tasks.keys() - {"trainer"}:
        assert "accelerator" not in placed.containers[name]["resources"]
        assert not {"nodeSelector", "tolerations"} & placed.pods[name].keys()


def test_workers_get_the_trainers_resources(small_plan, tmp_path):
    placement = Placement(workers=3, gpu=Gpu(), nodes={"Trainer": {"cpu_limit": "16"}})
    made = Compiled(small_plan, tmp_path, placement)
    [replicated] = json.loads(made.option("trainer", "--worker-job"))["spec"]["replicatedJobs"]
    worker = replicated["template"]["spec"]
    [container] = worker["template"]["spec"]["containers"]
    assert (worker["completions"], container["image"]) == (3, IMAGE)
    assert container["resources"]["limits"]["cpu"] == "16"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    # The Trainer's own pod only starts and watches the workers, so it gets no GPU.
    resources = made.containers["trainer"]["resources"]
    assert resources["cpuLimit"] == 4.0
    assert "accelerator" not in resources
    assert "tolerations" not in made.pods["trainer"]
    for name in made.tasks.keys() - {"trainer"}:
        assert "--worker-job" not in made.containers[name]["args"]


def test_options_of_the_placement_are_in_every_pod(placed):
    """The options become fields of KFP's kubernetes_executor_config.proto.

    KFP's backend/src/v2/driver/k8s.go reads these fields.
    """
    expression = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    ids = {"runAsUser": "65532", "runAsGroup": "65532", "runAsNonRoot": True}
    labels = {"team": "rides", "penstock/run": "true"}
    login = {"user": "PENSTOCK_MYSQL_USER", "password": "PENSTOCK_MYSQL_PASSWORD"}
    tls = "/var/run/penstock/mysql-tls"
    for name, pod in placed.pods.items():
        assert pod["securityContext"] == ids
        assert pod["podMetadata"] == {
            "labels": labels,
            "annotations": {"gke-gcsfuse/volumes": "true"},
        }
        assert pod["imagePullSecret"] == [{"secretName": "registry"}]
        assert pod["nodeAffinity"] == [{"matchExpressions": [expression]}]
        assert {
            secret["secretName"]: {one["secretKey"]: one["envVar"] for one in secret["keyToEnv"]}
            for secret in pod["secretAsEnv"]
        } == {"churn-db": {"user": "PENSTOCK_SQL_USER"}, "penstock-mysql": login}
        (volume,) = pod["secretAsVolume"]
        assert (volume["secretName"], volume["mountPath"]) == ("db-tls", tls)
        assert placed.option(name, "--metadata") == f"mysql://[fd00::5]:3307/runs?tls={tls}"


def test_timeout_wraps_the_command_of_a_node(placed):
    """The `timeout` command ends a node that exceeds its time limit.

    Only KFP 2.5 and 2.14 to 2.17 read `active_deadline_seconds`, so the file does not set it.
    """
    commands = {name: " ".join(one["command"]) for name, one in placed.containers.items()}
    assert commands.pop("trainer") == "timeout --kill-after=60 3600 penstock node"
    assert set(commands.values()) == {"penstock node"}


def test_the_same_pipeline_gives_the_same_file_and_kfp_reads_it_back(small_plan, small, tmp_path):
    first = small.file.read_text()
    assert Compiled(small_plan, tmp_path).file.read_text() == first
    assert [file.name for file in tmp_path.iterdir()] == ["pipeline.yaml"]
    loaded = components.load_component_from_text(first)
    assert loaded.name == "small-pipeline"
    assert set(loaded.pipeline_spec.root.dag.tasks) == {task.name for task in small_plan.tasks}
