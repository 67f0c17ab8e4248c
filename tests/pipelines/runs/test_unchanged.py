import json
import os
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from penstock.components.example_gen.fingerprint import input_fingerprint
from penstock.components.sources.options import SourceOptions
from penstock.pipelines.runs.unchanged import (
    Unchanged,
    command_digest,
    find_unchanged,
    state_of,
)

RUN = "root/examples/1"


@pytest.fixture
def kept(tmp_path):
    """What a run in `tmp_path/root` rested on."""
    for name, text in {
        "data/a.csv": "id\n1\n",
        "mine/pipeline.py": "x = 1\n",
        "root/metadata.sqlite": "store",
        "root/examples/1/Split-train/shard": "rows",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    patterns = [(f"{tmp_path}/data/*", SourceOptions())]
    files = ("mine/pipeline.py", "mine/extra.yaml", "mine/", "root/metadata.sqlite")
    kept = Unchanged(
        command="abc",
        run_id="run-1",
        nodes=["Gen"],
        inputs=[(input_fingerprint(patterns), [(p, asdict(how)) for p, how in patterns])],
        states={f"{tmp_path}/{name}": state_of(f"{tmp_path}/{name}") for name in (*files, RUN)},
        text="all well\n",
        json="{}\n",
    )
    kept.keep(tmp_path / "root")
    return kept


def test_what_is_as_it_was_is_found(tmp_path, kept):
    (tmp_path / "mine/__pycache__").mkdir()
    (tmp_path / "root/logs").mkdir()
    os.utime(tmp_path / "data/a.csv")  # its content counts, as for the ExampleGen
    found = find_unchanged("abc", str(tmp_path / "root"))
    assert json.loads(json.dumps(asdict(found))) == json.loads(json.dumps(asdict(kept)))
    assert find_unchanged("abd", str(tmp_path / "root")) is None
    assert find_unchanged("abc", str(tmp_path)) is None


def test_without_a_root_it_is_looked_for_in_runs(tmp_path, kept, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_unchanged("abc", None) is None
    kept.keep(tmp_path / "root")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/mine").symlink_to(tmp_path / "root")
    assert find_unchanged("abc", None).run_id == "run-1"
    (tmp_path / "runs/mine").unlink()
    assert find_unchanged("abc", None) is None
    kept.keep(tmp_path / "runs")  # as a package of `penstock init` has it
    assert find_unchanged("abc", None).run_id == "run-1"


def rewrite(name, text):
    """Other content of the same size, and the same time of the last edit."""

    def change(folder):
        before = (folder / name).stat()
        (folder / name).write_text(text)
        os.utime(folder / name, ns=(before.st_atime_ns, before.st_mtime_ns))
        after = (folder / name).stat()
        assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)

    return change


@pytest.mark.parametrize(
    "change",
    [
        rewrite("data/a.csv", "id\n2\n"),
        rewrite("mine/pipeline.py", "x = 2\n"),
        rewrite("root/metadata.sqlite", "STORE"),
        rewrite("root/examples/1/Split-train/shard", "ROWS"),
        lambda folder: (folder / "data/b.csv").write_text("id\n1\n"),
        lambda folder: (folder / "data/a.csv").unlink(),
        lambda folder: (folder / "mine/extra.yaml").write_text("steps: 1"),
        lambda folder: (folder / "mine/pipeline").mkdir(),
        lambda folder: (folder / "mine/pipeline.py").unlink(),
        lambda folder: (folder / "root/examples/1/Split-train/stray").touch(),
        lambda folder: (folder / "root/examples/1/Split-train/shard").unlink(),
        lambda folder: (folder / "root/examples/1").rename(folder / "root/examples/2"),
        lambda folder: (folder / "root/metadata.sqlite").unlink(),
        lambda folder: (folder / "root/unchanged.json").write_text("{"),
        lambda folder: (folder / "root/unchanged.json").unlink(),
    ],
)
def test_any_change_leaves_it_to_the_ordinary_way(tmp_path, kept, change):
    root = str(tmp_path / "root")
    assert find_unchanged("abc", root) == replace(kept, inputs=json.loads(json.dumps(kept.inputs)))
    change(tmp_path)
    assert find_unchanged("abc", root) is None


def test_another_command_or_environment_is_another_digest(tmp_path, monkeypatch):
    def digest(pipeline="a:b", **changes):
        return command_digest(pipeline, {"train": {"steps": 1}, **changes})

    first = digest()
    monkeypatch.setenv("TERM", "other")
    monkeypatch.setenv("MAKEFLAGS", "-j2")
    assert digest() == first
    digests = [first, digest("a:c"), digest(engine={"runner": "flink"}), digest(pack=True)]
    monkeypatch.setenv("MY_DATA", "x")
    digests.append(digest())
    monkeypatch.chdir(tmp_path)
    digests.append(digest())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/pipeline.py").touch()
    digests.append(digest())
    assert len({*digests}) == 7


def test_to_look_costs_no_heavy_import():
    code = "import penstock.pipelines.cli.work.run, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"tfx", "tensorflow", "apache_beam", "tensorflow_model_analysis", "ml_metadata"}
    assert heavy.isdisjoint(done.stdout.split())
