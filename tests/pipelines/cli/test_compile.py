"""`penstock compile` on a machine that is not the one where the pipeline runs."""

import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.components.errors import UsageError
from penstock.components.plain import override
from penstock.components.trainer.input.options import InputOptions
from penstock.pipelines.cli.main import app
from penstock.pipelines.kubeflow import ir as irs
from penstock.pipelines.kubeflow.compile import compile_pipeline
from penstock.pipelines.kubeflow.ir import change_texts
from penstock.pipelines.kubeflow.placement import Placement, check_config
from penstock.pipelines.kubeflow.recipe import Recipe
from penstock.pipelines.kubeflow.resources import Volume
from penstock.pipelines.runs.metadata_store import MySqlStore
from penstock.schemas import schema_file

IMAGE = "registry.example/penstock@sha256:" + "0" * 64
ROOT = Path(__file__).parents[3]


def compiled(out, changes=None, placement=Placement()):  # noqa: B008  # frozen
    """The nodes of compiled taxi by id."""
    plan = compile_pipeline(
        "taxi", changes or {}, out, image=IMAGE, placement=placement, allow_mutable_tag=False
    )
    ir, _ = Recipe.from_text(plan.recipe).build([])
    return {node.node_info.id: node for node in irs.nodes(ir)}


def texts(message):
    found = []
    change_texts(message, lambda text: found.append(text) or text)
    return found


def test_existing_file_is_kept_without_overwrite(tmp_path):
    out = tmp_path / "taxi.yaml"
    out.write_text("edited by hand")
    for pipeline in ("taxi", "ingest"):
        done = CliRunner().invoke(app, ["compile", pipeline, "--image", IMAGE, "--out", str(out)])
        assert str(done.exception) == (
            f"{out} exists already; name another output or pass --overwrite"
        )
    assert out.read_text() == "edited by hand"


ROOT_EXISTED = Path("/penstock").exists()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("compiled") / "taxi.yaml"


@pytest.fixture(scope="module")
def taxi(file):
    return compiled(file)


def test_no_path_of_the_compiling_machine_is_in_the_file(taxi, file):
    assert len(taxi) == 11
    for place in (str(ROOT), sysconfig.get_path("purelib"), "/tmp"):
        assert place not in file.read_text()


def test_a_container_finds_schema_and_data_in_its_own_packages(taxi, taxi_csv):
    assert str(taxi_csv.parent) in texts(taxi["ShardedExampleGen"].parameters)
    assert schema_file("taxi") in texts(taxi["CuratedSchema"].parameters)


def test_the_root_is_the_placements_and_is_not_made(taxi):
    (pushed,) = [t for t in texts(taxi["Pusher"]) if "serving_model" in t]
    assert '"/penstock/runs/taxi/serving_model"' in pushed
    assert Path("/penstock").exists() == ROOT_EXISTED


@pytest.mark.slow
def test_a_root_of_the_users_own(tmp_path):
    placement = Placement(
        pipeline_root="gs://bucket/runs", volume=None, metadata_mysql=MySqlStore("mysql")
    )
    for changes, root in (({}, "gs://bucket/runs/taxi"), ({"root": "gs://b/x"}, "gs://b/x")):
        nodes = compiled(tmp_path / "taxi.yaml", changes, placement)
        (pushed,) = [t for t in texts(nodes["Pusher"]) if "serving_model" in t]
        assert f'"{root}/serving_model"' in pushed


def test_root_outside_of_the_volume_is_refused(tmp_path):
    for root in ("runs/taxi", "/data/runs"):
        with pytest.raises(UsageError, match=r"root must lie below the volume at /penstock, got "):
            compiled(tmp_path / "taxi.yaml", {"root": root})
    assert not list(tmp_path.iterdir())


def test_data_of_this_machine_is_refused(tmp_path, taxi_csv):
    for data in (tmp_path, taxi_csv.parent):  # pods have the package at another place
        with pytest.raises(UsageError, match=r"^data: .* is a path of this machine"):
            compiled(tmp_path / "taxi.yaml", {"data": str(data)})
    placement = Placement(
        volume=Volume(mount_path=str(tmp_path)),
        pipeline_root=f"{tmp_path}/runs",
        metadata_sqlite=f"{tmp_path}/metadata.sqlite",
    )
    compiled(tmp_path / "taxi.yaml", {"data": str(tmp_path)}, placement)


def test_a_name_too_long_for_tfx_is_one_clear_line(tmp_path, monkeypatch):
    (tmp_path / "long_name.py").write_text(
        "from tfx.orchestration.pipeline import Pipeline\n"
        "def create_pipeline():\n    return Pipeline('p' * 64, '/penstock/p', components=[])\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    with pytest.raises(UsageError, match=r"name is too long for TFX: pipeline p+ exceeds .*: 63"):
        compile_pipeline(
            "long_name:create_pipeline",
            {},
            tmp_path / "p.yaml",
            image=IMAGE,
            placement=Placement(),
            allow_mutable_tag=False,
        )


INIT_CONFIG = """\
from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    data: str = {data!r}
    root: str = "runs"
"""
INIT_PIPELINE = """\
import tfx  # not imported before the check

from .config import Config


def create_pipeline(config: Config):
    raise AssertionError("not called before the check")
"""


def test_local_data_of_an_init_package_is_refused_before_tfx_is_imported(penstock, tmp_path):
    package = tmp_path / "of_init"
    package.mkdir()
    (tmp_path / "rows.csv").write_text("a\n1\n")
    (package / "__init__.py").touch()
    (package / "config.py").write_text(INIT_CONFIG.format(data=str(tmp_path / "rows.csv")))
    (package / "pipeline.py").write_text(INIT_PIPELINE)
    done = penstock.run_code(
        f"""
        import os, sys
        os.chdir({str(tmp_path)!r})
        sys.modules["tfx"] = None
        from penstock.pipelines.cli.main import main
        sys.argv = "penstock compile . --image {IMAGE} --out p.yaml".split()
        main()
        """
    )
    assert done.returncode == 2
    assert done.stderr.strip() == (
        f"penstock: data: {tmp_path}/rows.csv is a path of this machine, which pods do not see: "
        "put it on the volume or into a bucket, and add --set data=/penstock/... or --set "
        "data=gs://...; or name it in the placement's image_paths if the image has it too"
    )


@pytest.mark.parametrize(
    ("changes", "image_paths"), [({"data": "gs://bucket/rows"}, ()), ({}, ("/image",))]
)
def test_data_that_pods_see_passes_the_early_check(tmp_path, changes, image_paths):
    @dataclass(frozen=True)
    class Config:
        data: str = str(tmp_path)

    placement = Placement(image_paths=tuple(path.replace("/image", "/") for path in image_paths))
    check_config(override(Config(), changes), placement)
    check_config(None, placement)


def test_cache_of_one_worker_is_refused_before_tfx_loads_for_two(tmp_path):
    with pytest.raises(UsageError, match=r"'memory' is for one worker"):  # of penstock.compile too
        compiled(tmp_path / "taxi.yaml", {"input": {"cache": "memory"}}, Placement(workers=2))

    @dataclass(frozen=True)
    class Config:
        input: InputOptions

    check_config(Config(InputOptions(batch_size=2, cache="memory")), Placement())
    check_config(Config(InputOptions(batch_size=2)), Placement(workers=2))
    with pytest.raises(UsageError, match=r"'memory' is for one worker.*--set input\.cache=none"):
        check_config(Config(InputOptions(batch_size=2, cache="memory")), Placement(workers=2))
