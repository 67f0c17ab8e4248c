"""A pipeline of three small nodes, run in this process."""

import os
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from ml_metadata.proto import metadata_store_pb2
from shared_runs import Record, run_nodes, small_pipeline
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration.metadata import Metadata
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import example_gen_pb2
from tfx.types.standard_artifacts import Examples, Model

from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.component import ShardedExampleGen
from penstock.pipelines.kubeflow.refusals import check_no_secrets
from penstock.pipelines.local.runner import run_locally
from penstock.pipelines.runs.metadata_store import only_run
from penstock.pipelines.terminal.failures import NodeFailedError

FAILED = metadata_store_pb2.Execution.FAILED
RUNNING = metadata_store_pb2.Execution.RUNNING


@component
def MakeNumbers(numbers: OutputArtifact[Examples], how_many: Parameter[int]):  # noqa: N802
    Path(numbers.uri, "numbers").write_text(str(how_many))


@component
def Check(numbers: InputArtifact[Examples], fault: Parameter[str], model: OutputArtifact[Model]):  # noqa: N802
    Path(model.uri, "half").write_text("half of a model")
    if fault == "data":
        raise DataError("numbers: row 3: too big; expected at most 9")
    if fault == "code":
        raise ValueError("something\nodd")
    if fault == "interrupt":
        raise KeyboardInterrupt


@component
def Publish(model: InputArtifact[Model], pushed: OutputArtifact[Model]):  # noqa: N802
    Path(pushed.uri, "pushed").write_text("a model")


def make(root, how_many=3, fault=""):
    numbers = MakeNumbers(how_many=how_many)
    check = Check(numbers=numbers.outputs["numbers"], fault=fault)
    publish = Publish(model=check.outputs["model"])
    return small_pipeline("numbers", root, numbers, check, publish)


def run(root, **options):
    record = Record()
    run_locally(make(root, **options), record)
    return record


def test_an_unchanged_run_comes_from_the_cache(tmp_path):
    first = run(tmp_path)
    assert first.nodes == ["MakeNumbers", "Check", "Publish"]
    assert first.ended == dict.fromkeys(first.nodes, "done")
    assert run(tmp_path).ended == dict.fromkeys(first.nodes, "cached")
    assert run(tmp_path, how_many=4).ended == dict.fromkeys(first.nodes, "done")


@pytest.mark.parametrize(
    ("fault", "code", "text"),
    [
        ("data", 1, "node 'Check' failed: numbers: row 3: too big; expected at most 9"),
        ("code", 1, "node 'Check' failed: ValueError: odd"),
        ("interrupt", 130, "interrupted in node 'Check'; run again to continue from there"),
    ],
)
def test_a_failure_stops_the_run_and_leaves_nothing(tmp_path, fault, code, text):
    record = Record()
    with pytest.raises(NodeFailedError) as error:
        run_locally(make(tmp_path, fault=fault), record)
    assert str(error.value) == text
    assert error.value.exit_code == code
    assert record.ended == {"MakeNumbers": "done", "Check": "failed"}
    again = run(tmp_path)
    assert again.ended == {"MakeNumbers": "cached", "Check": "done", "Publish": "done"}
    assert len(list((tmp_path / "pipeline/Check/model").iterdir())) == 1


@pytest.mark.slow
def test_what_a_killed_run_left_is_removed(tmp_path):
    run(tmp_path)
    connection = make(tmp_path).metadata_connection_config
    with Metadata(connection) as handle:
        store = handle.store
        [node] = [c for c in store.get_contexts_by_type("node") if c.name == "numbers.Check"]
        [execution] = store.get_executions_by_context(node.id)
        live = tmp_path / f"pipeline/Check/model/{execution.id}/half"
        killed = metadata_store_pb2.Execution(type_id=execution.type_id, last_known_state=RUNNING)
        killed_id, _, _ = store.put_execution(killed, [], [node])
    left = tmp_path / f"pipeline/Check/model/{killed_id}/half"
    temporary = tmp_path / f"pipeline/Check/.system/executor_execution/{killed_id}/.temp/x"
    for file in (left, temporary):
        file.parent.mkdir(parents=True)
        file.touch()

    assert set(run(tmp_path).ended.values()) == {"cached"}

    assert live.exists()
    assert not left.parent.exists()
    assert not temporary.parent.parent.exists()
    with Metadata(connection) as handle:
        [execution] = handle.store.get_executions_by_id([killed_id])
        assert execution.last_known_state == FAILED


CLAIM = """
import pathlib
from penstock.pipelines.runs.metadata_store import only_run
with only_run(pathlib.Path(sys.argv[1])):
    print("in", flush=True)
    sys.stdin.read()
"""
LOCK = """
import sqlite3
other = sqlite3.connect(f"{sys.argv[1]}/metadata.sqlite")
other.execute("begin exclusive")
print("in", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other_process(tmp_path):
    """A function that starts code in another process and returns once the code has printed `in`."""
    started = []

    def start(code):
        command = [sys.executable, "-W", "ignore", "-c", f"import sys\n{code}", str(tmp_path)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "in\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_two_runs_in_one_folder_are_refused(tmp_path, other_process):
    other = other_process(CLAIM)
    with pytest.raises(DataError, match=f"^{tmp_path}: another run is at work .*{other.pid}"):
        run(tmp_path)
    other.kill()
    other.wait()
    with only_run(tmp_path):  # the claim of a killed run ends with its process
        assert (tmp_path / ".lock").read_text() == str(os.getpid())


@pytest.mark.slow
def test_fork_that_outlives_a_run_does_not_hold_its_folder(tmp_path):
    reading, writing = os.pipe()
    with only_run(tmp_path):
        child = os.fork()
        if not child:
            os.read(reading, 1)
            os._exit(0)
    with only_run(tmp_path):
        pass
    os.write(writing, b"x")
    os.waitpid(child, 0)


@pytest.mark.slow
def test_a_locked_metadata_store_is_one_line(tmp_path, other_process):
    run(tmp_path)
    other_process(LOCK)
    with pytest.raises(DataError, match=f"^{tmp_path}/metadata.sqlite: .* .database is locked.;"):
        run(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"")])
def test_a_metadata_store_that_is_gone_is_named_with_the_outputs_that_it_knew(tmp_path, damage):
    run(tmp_path)
    damage(tmp_path / "metadata.sqlite")
    with pytest.raises(DataError, match=f"sqlite: .* is gone, .*{tmp_path}/pipeline/MakeNumbers;"):
        run(tmp_path)
    assert run(tmp_path / "other").ended["Publish"] == "done"


@pytest.mark.slow
@pytest.mark.parametrize("left", [0.9, 0.5, 0.1, None])
def test_a_metadata_store_that_is_cut_or_another_file_is_named(tmp_path, left):
    run(tmp_path)
    file = tmp_path / "metadata.sqlite"
    if left is None:
        file.write_text("something else, of no few bytes" * 100)
    else:
        os.truncate(file, int(left * file.stat().st_size))
    with pytest.raises(DataError, match=f"^{file}: the metadata store (is damaged|cannot be writ)"):
        run(tmp_path)


@pytest.mark.slow
def test_what_failed_nodes_left_does_not_pile_up(tmp_path):
    for fault in ("data", "code"):
        with pytest.raises(NodeFailedError):
            run(tmp_path, fault=fault)
    run(tmp_path)
    assert not any((tmp_path / "pipeline/Check/.system/stateful_working_dir").glob("*"))


def test_the_metadata_must_lie_in_a_file():
    with pytest.raises(UsageError, match=r"must keep its metadata in an sqlite file"):
        run_locally(Pipeline(pipeline_name="x", pipeline_root="x", components=[]), Record())


@pytest.fixture
def web(tmp_path):
    """Address of a server for the files in `tmp_path/web`."""
    (tmp_path / "web").mkdir()
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "web"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_no_copies_of_remote_input_stay_behind(tmp_path, web, monkeypatch):
    (tmp_path / "web/a.csv").write_text("id\n1\n2\n3\n")
    (tmp_path / "spool").mkdir()
    monkeypatch.setenv("PENSTOCK_SPOOL", str(tmp_path / "spool"))
    split = example_gen_pb2.Input.Split(name="all", pattern="a.csv")
    for state in ("done", "cached"):
        web_gen = ShardedExampleGen(web, input_config=example_gen_pb2.Input(splits=[split]))
        assert run_nodes("web", tmp_path, web_gen) == {"ShardedExampleGen": state}
        assert list((tmp_path / "spool").iterdir()) == []


def test_a_secret_in_an_option_is_refused_before_a_node_runs(tmp_path):
    record = Record()
    with pytest.raises(
        UsageError, match=r"^node 'Check', .*: looks like a token of a service"
    ) as error:
        run_locally(make(tmp_path, fault=f"sk_live_{'a1' * 12}"), record, check=check_no_secrets)
    assert "sk_live" not in str(error.value)
    assert record.ended == {}
