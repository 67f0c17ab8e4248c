import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from kfp import components
from tfx.components.statistics_gen.component import StatisticsGen
from tfx.dsl.component.experimental.annotations import Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.components.common.importer import Importer
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types.standard_artifacts import Examples

from penstock.pipelines.kubeflow.compiled_file import read_compiled_file
from penstock.pipelines.kubeflow.ir import compile_ir
from penstock.pipelines.kubeflow.pipeline_yaml import write_kubeflow
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
from tests.pipelines.kubeflow.placements import IMAGE, ir_of, trainer_of

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


def _compiled(plan, folder, placement=Placement()):  # noqa: B008  # frozen
    out = folder / "pipeline.yaml"
    write_kubeflow(plan, out, image=IMAGE, placement=placement)
    spec, platforms = list(yaml.safe_load_all(out.read_text()))
    return spec, platforms["platforms"]["kubernetes"]["deploymentSpec"]["executors"]


def test_tasks_are_nodes_in_dag_order(small_plan, tmp_path):
    spec, _ = _compiled(small_plan, tmp_path)

    tasks = spec["root"]["dag"]["tasks"]
    assert {name: task["taskInfo"]["name"] for name, task in tasks.items()} == {
        "import-schema-v1": "import_schema.v1",
        "last-schema": "last_schema",
        "make-numbers": "make.numbers",
        "trainer": "Trainer",
        "make-numbers-2": "make_numbers",
    }
    assert {name: task.get("dependentTasks", []) for name, task in tasks.items()} == {
        "import-schema-v1": [],
        "last-schema": ["import-schema-v1"],
        "make-numbers": ["import-schema-v1"],
        "trainer": ["make-numbers"],
        "make-numbers-2": ["last-schema", "make-numbers", "trainer"],
    }
    assert spec["pipelineInfo"]["name"] == "small-pipeline"


def test_task_runs_its_node_with_kfps_run_id(small_plan, tmp_path):
    spec, _ = _compiled(small_plan, tmp_path)

    container = spec["deploymentSpec"]["executors"]["exec-make-numbers"]["container"]
    assert container["image"] == IMAGE
    assert container["command"] == ["penstock", "node"]
    (*arguments, definition) = container["args"]
    view = arguments.index("--kfp-executor-input")
    assert arguments[view + 1] == "{{$}}"
    del arguments[view : view + 2]
    assert arguments == [
        "make.numbers",
        *("--pipeline-root", "/penstock/runs/small-pipeline"),
        *("--metadata", "/penstock/metadata.sqlite"),
        *("--run-id", "{{$.inputs.parameters['run_id']}}"),
        *("--parameter", "how-many={{$.inputs.parameters['how_many']}}"),
        *("--parameter", "note={{$.inputs.parameters['note']}}"),
        *("--parameter", "scale={{$.inputs.parameters['scale']}}"),
        "--ir",
    ]
    run_id = "{{$.inputs.parameters['run_id']}}"
    assert definition == f"/penstock/runs/small-pipeline/definitions/{run_id}.pb"
    inputs = spec["root"]["dag"]["tasks"]["make-numbers"]["inputs"]["parameters"]
    assert inputs["run_id"] == {"runtimeValue": {"constant": "{{$.pipeline_job_uuid}}"}}
    assert inputs["how_many"] == {"componentInputParameter": "how_many"}


def test_first_task_builds_the_definition_and_all_others_wait_for_it(tmp_path):
    nodes = [tell().with_id("a"), tell().with_id("b"), tell().with_id("c")]
    nodes[2].add_upstream_node(nodes[1])
    plan = replace(plan_ir(ir_of(*nodes)), recipe="{}")
    spec, _ = _compiled(plan, tmp_path)
    tasks = spec["root"]["dag"]["tasks"]
    executors = spec["deploymentSpec"]["executors"]

    carried = {n.removeprefix("exec-"): e["container"]["args"] for n, e in executors.items()}
    assert carried["a"][-2:] == ["--recipe", "{}"]
    assert "--recipe" not in (*carried["b"], *carried["c"])
    assert tasks["b"]["dependentTasks"] == ["a"]
    assert tasks["c"]["dependentTasks"] == ["b"]


def test_runtime_parameters_are_kfp_parameters_of_the_same_type_and_default(small_plan, tmp_path):
    spec, _ = _compiled(small_plan, tmp_path)

    assert spec["root"]["inputDefinitions"]["parameters"] == {
        "how_many": {"parameterType": "NUMBER_INTEGER", "defaultValue": 3.0, "isOptional": True},
        "note": {"parameterType": "STRING", "defaultValue": "hello", "isOptional": True},
        "scale": {"parameterType": "NUMBER_DOUBLE", "defaultValue": 0.0, "isOptional": True},
    }


def test_a_parameter_without_default_is_required(tmp_path):
    told = tell(text=RuntimeParameter("run_id", str), about=RuntimeParameter("Run.Id", str, "x"))
    spec, _ = _compiled(plan_ir(ir_of(told)), tmp_path)

    assert spec["root"]["inputDefinitions"]["parameters"] == {
        "run_id_2": {"parameterType": "STRING"},
        "run_id_3": {"parameterType": "STRING", "defaultValue": "x", "isOptional": True},
    }
    args = spec["deploymentSpec"]["executors"]["exec-tell"]["container"]["args"]
    assert "Run.Id={{$.inputs.parameters['run_id_3']}}" in args
    assert "run_id={{$.inputs.parameters['run_id_2']}}" in args


def test_a_default_of_several_lines_stays_a_default(tmp_path):
    """kfp's own compiler writes defaults into a comment: its file is then no YAML."""
    query = "SELECT *\nFROM trips: x\n"
    told = tell(text=RuntimeParameter("query", str, query))
    spec, _ = _compiled(plan_ir(ir_of(told)), tmp_path)

    assert spec["root"]["inputDefinitions"]["parameters"]["query"]["defaultValue"] == query
    kubeflow_file = read_compiled_file(tmp_path / "pipeline.yaml")
    assert kubeflow_file.parameters["query"]["defaultValue"] == query


def test_every_task_has_limits_retries_and_the_volume_and_no_kfp_cache(small_plan, tmp_path):
    placement = Placement(
        resources=Resources("500m", "2", "1G", "2G"),
        nodes={"make_numbers": {"memory_limit": "4G"}},
        retry=Retry(times=3, wait_seconds=10, factor=3, total_seconds=7200),
    )
    spec, platform = _compiled(small_plan, tmp_path, placement)

    for task in spec["root"]["dag"]["tasks"].values():
        assert task["cachingOptions"] == {}
        assert task["retryPolicy"] == {
            "maxRetryCount": 3,
            "backoffDuration": "10s",
            "backoffFactor": 3.0,
            "backoffMaxDuration": "7200s",
        }
    for name, executor in spec["deploymentSpec"]["executors"].items():
        resources = executor["container"]["resources"]
        memory_limit = 4.0 if name == "exec-make-numbers-2" else 2.0
        assert resources["cpuRequest"] == 0.5
        assert resources["cpuLimit"] == 2.0
        assert resources["memoryRequest"] == 1.0
        assert resources["memoryLimit"] == memory_limit
        (mount,) = platform[name]["pvcMount"]
        assert (mount["constant"], mount["mountPath"]) == ("penstock", "/penstock")
        assert "secretAsEnv" not in platform[name]


def test_default_retry_budget_allows_long_trainings(small_plan, tmp_path):
    """Argo's `maxDuration` counts from the first start; left out, KFP makes 0 of it: no retry.

    pipelines 2.17 argocompiler/container.go:423 (default "0") and :644; argo 4.0
    workflow/controller/operator.go:1080 (deadline = first child's start + maxDuration).
    """
    spec, _ = _compiled(small_plan, tmp_path)

    for task in spec["root"]["dag"]["tasks"].values():
        assert task["retryPolicy"]["maxRetryCount"] == 2
        assert task["retryPolicy"]["backoffMaxDuration"] == "2592000s"


def _artifacts(definitions):
    found = definitions.get("artifacts", {})
    return {name: one["artifactType"]["schemaTitle"] for name, one in found.items()}


def test_artifacts_of_tfx_are_inputs_and_outputs_of_tasks(small_plan, tmp_path):
    spec, _ = _compiled(small_plan, tmp_path)

    made = {n: _artifacts(c.get("outputDefinitions", {})) for n, c in spec["components"].items()}
    assert made == {
        "comp-import-schema-v1": {"result": "system.Artifact"},
        "comp-last-schema": {},
        "comp-make-numbers": {"numbers": "system.Dataset", "total": "system.Artifact"},
        "comp-trainer": {"model": "system.Model"},
        "comp-make-numbers-2": {"pushed": "system.Model"},
    }
    read = {
        name: {
            one: (
                given["taskOutputArtifact"]["producerTask"],
                given["taskOutputArtifact"]["outputArtifactKey"],
            )
            for one, given in task["inputs"].get("artifacts", {}).items()
        }
        for name, task in spec["root"]["dag"]["tasks"].items()
    }
    assert read == {
        "import-schema-v1": {},
        "last-schema": {},
        "make-numbers": {"import_schema_v1_result": ("import-schema-v1", "result")},
        "trainer": {"make_numbers_numbers": ("make-numbers", "numbers")},
        # The condition reads the total.
        "make-numbers-2": {
            "make_numbers_total": ("make-numbers", "total"),
            "trainer_model": ("trainer", "model"),
        },
    }
    args = spec["deploymentSpec"]["executors"]["exec-trainer"]["container"]["args"]
    assert args[-4:-1] == ["--kfp-executor-input", "{{$}}", "--ir"]


def test_statistics_are_shown_as_html_and_a_training_as_metrics(tmp_path):
    examples = Importer("/data", Examples).with_id("import")
    statistics = StatisticsGen(examples=examples.outputs["result"])
    ir = ir_of(examples, statistics, trainer_of(examples))
    spec, _ = _compiled(plan_ir(ir), tmp_path)

    shown = {n: _artifacts(c.get("outputDefinitions", {})) for n, c in spec["components"].items()}
    assert shown["comp-statisticsgen"]["html"] == "system.HTML"
    assert shown["comp-trainer"]["metrics"] == "system.Metrics"


def test_only_the_trainer_is_on_a_gpu(small_plan, tmp_path):
    gpu = Gpu(
        count=2,
        node_selector={"pool": "gpu"},
        tolerations=(Toleration("nvidia.com/gpu", "Equal", "yes", "NoSchedule"),),
    )
    spec, platform = _compiled(small_plan, tmp_path, Placement(gpu=gpu))

    executors = spec["deploymentSpec"]["executors"]
    accelerator = executors["exec-trainer"]["container"]["resources"]["accelerator"]
    assert (accelerator["type"], accelerator["count"]) == ("nvidia.com/gpu", "2")
    assert platform["exec-trainer"]["nodeSelector"] == {"labels": {"pool": "gpu"}}
    assert platform["exec-trainer"]["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    ]
    assert "pvcMount" in platform["exec-trainer"]
    for name in executors.keys() - {"exec-trainer"}:
        assert "accelerator" not in executors[name]["container"]["resources"]
        assert "nodeSelector" not in platform[name]
        assert "tolerations" not in platform[name]


def test_workers_get_the_trainers_resources(small_plan, tmp_path):
    placement = Placement(workers=3, gpu=Gpu(), nodes={"Trainer": {"cpu_limit": "16"}})
    spec, platform = _compiled(small_plan, tmp_path, placement)

    executors = spec["deploymentSpec"]["executors"]
    arguments = executors["exec-trainer"]["container"]["args"]
    job = json.loads(arguments[arguments.index("--worker-job") + 1])
    [replicated] = job["spec"]["replicatedJobs"]
    worker = replicated["template"]["spec"]
    [container] = worker["template"]["spec"]["containers"]
    assert (worker["completions"], container["image"]) == (3, IMAGE)
    assert container["resources"]["limits"]["cpu"] == "16"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    # The node itself starts and watches them.
    resources = executors["exec-trainer"]["container"]["resources"]
    assert resources["cpuLimit"] == 4.0
    assert "accelerator" not in resources
    assert "tolerations" not in platform["exec-trainer"]
    for name in executors.keys() - {"exec-trainer"}:
        assert "--worker-job" not in executors[name]["container"]["args"]


def test_options_of_the_placement_are_in_every_pod(small_plan, tmp_path):
    """Fields of KFP's kubernetes_executor_config.proto; backend/src/v2/driver/k8s.go reads them."""
    placement = Placement(
        gpu=Gpu(),
        pod_labels={"team": "rides"},
        pod_annotations={"gke-gcsfuse/volumes": "true"},
        secret_env={"churn-db": {"user": "PENSTOCK_SQL_USER"}},
        image_pull_secrets=("registry",),
        affinity=(Affinity("zone", "In", ("a", "b")),),
    )
    _, platform = _compiled(small_plan, tmp_path, placement)

    assert len(platform) == 5
    expression = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    for executor in platform.values():
        assert executor["securityContext"] == {
            "runAsUser": "65532",
            "runAsGroup": "65532",
            "runAsNonRoot": True,
        }
        assert executor["podMetadata"] == {
            "labels": {"team": "rides", "penstock/run": "true"},
            "annotations": {"gke-gcsfuse/volumes": "true"},
        }
        assert executor["imagePullSecret"] == [{"secretName": "registry"}]
        assert executor["nodeAffinity"] == [{"matchExpressions": [expression]}]
        (secret,) = executor["secretAsEnv"]
        assert secret["secretName"] == "churn-db"
        assert secret["keyToEnv"] == [{"secretKey": "user", "envVar": "PENSTOCK_SQL_USER"}]
    assert platform["exec-trainer"]["tolerations"]


def test_login_and_certificates_of_mysql_come_from_secrets(small_plan, tmp_path):
    placement = Placement(
        metadata_mysql=MySqlStore("fd00::5", 3307, "runs"),
        mysql_secret=MySqlSecret(tls_name="db-tls"),
    )
    spec, platform = _compiled(small_plan, tmp_path, placement)

    args = spec["deploymentSpec"]["executors"]["exec-trainer"]["container"]["args"]
    address = "mysql://[fd00::5]:3307/runs?tls=/var/run/penstock/mysql-tls"
    assert args[args.index("--metadata") + 1] == address
    (secret,) = platform["exec-trainer"]["secretAsEnv"]
    assert secret["secretName"] == "penstock-mysql"
    assert secret["keyToEnv"] == [
        {"secretKey": "user", "envVar": "PENSTOCK_MYSQL_USER"},
        {"secretKey": "password", "envVar": "PENSTOCK_MYSQL_PASSWORD"},
    ]
    (volume,) = platform["exec-trainer"]["secretAsVolume"]
    assert (volume["secretName"], volume["mountPath"]) == ("db-tls", "/var/run/penstock/mysql-tls")


def test_timeout_wraps_the_command_of_a_node(small_plan, tmp_path):
    """By the image: only KFP 2.5 and 2.14 to 2.17 read `active_deadline_seconds` of a task."""
    placement = Placement(nodes={"Trainer": {"timeout_seconds": 3600}})
    spec, _ = _compiled(small_plan, tmp_path, placement)

    executors = spec["deploymentSpec"]["executors"]
    commands = {name: executor["container"]["command"] for name, executor in executors.items()}
    assert commands.pop("exec-trainer") == [
        *("timeout", "--kill-after=60", "3600", "penstock", "node")
    ]
    assert set(map(tuple, commands.values())) == {("penstock", "node")}


def test_the_same_pipeline_gives_the_same_file_and_kfp_reads_it_back(small_plan, tmp_path):
    _compiled(small_plan, tmp_path)
    first = (tmp_path / "pipeline.yaml").read_text()
    _compiled(small_plan, tmp_path)

    assert (tmp_path / "pipeline.yaml").read_text() == first
    assert [file.name for file in tmp_path.iterdir()] == ["pipeline.yaml"]
    loaded = components.load_component_from_text(first)
    assert loaded.name == "small-pipeline"
    assert set(loaded.pipeline_spec.root.dag.tasks) == {task.name for task in small_plan.tasks}
