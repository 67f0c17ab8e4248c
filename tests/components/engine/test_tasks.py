import pickle
import subprocess
import sys
import tempfile
from functools import partial

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from local_beam import local_pipeline

from penstock.components.engine import beam_tasks, pipeline
from penstock.components.engine.options import local_beam_args
from penstock.components.engine.pipeline import node_engine
from penstock.components.engine.tasks import run_tasks
from penstock.components.errors import DataError
from penstock.components.files.output import open_workspace

ENGINES = {
    "in this process": 1,
    "in two": 2,
    "on Beam": partial(local_pipeline, 1),
}


def failing(error):
    """An expression for `eval` that raises an error."""
    errors = "penstock.components.errors"
    return f"(_ for _ in ()).throw(__import__({errors!r}, fromlist=['*']).{error})"


@pytest.fixture
def place(tmp_path):
    with open_workspace(tmp_path / "out") as place:
        yield place


@pytest.mark.parametrize("engine", ENGINES)
def test_results_come_in_the_order_of_the_tasks(place, engine):
    assert list(run_tasks(map(str, range(7)), int, place, ENGINES[engine])) == list(range(7))
    assert list(run_tasks([], int, place, ENGINES[engine])) == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("DataError('row 3 is bad')", "row 3 is bad"),
        ("TriesFailedError('disk a: still failing')", "disk a: still failing"),
        ("os.error(28, 'No space left', '/out/x')", "/out/x: No space left"),
        ("os.sys.modules['builtins'].MemoryError('malloc')", "out of memory (malloc); use fewer"),
    ],
)
def test_failed_task_is_one_line_and_ends_the_work(place, engine, error, text):
    tasks = ["1", failing(error), failing("DataError('a later one')")]
    with pytest.raises(DataError) as caught:
        list(run_tasks(tasks, eval, place, ENGINES[engine]))
    assert str(caught.value).startswith(text)


def test_two_tasks_that_fail_at_once_are_one_line(place, monkeypatch):
    put = type(place).put

    def put_first(output, name, data):
        if name.endswith("stopped"):
            raise DataError(f"{name}: another ingest wrote this meanwhile")
        put(output, name, data)

    monkeypatch.setattr(type(place), "put", put_first)
    with pytest.raises(DataError, match="row 3 is bad"):
        list(run_tasks([failing("DataError('row 3 is bad')")], eval, place, ENGINES["on Beam"]))


def test_engine_that_retries_gets_errors_of_the_system(place):
    def elsewhere():
        return beam.Pipeline(BundleBasedDirectRunner(), PipelineOptions([]))

    with pytest.raises(OSError, match="no room"):
        list(run_tasks([failing("os.error('no room')")], eval, place, elsewhere))


def test_more_tasks_than_elements_give_their_results_in_order(place, monkeypatch):
    monkeypatch.setattr(beam_tasks, "_MAX_ELEMENTS", 4)
    for count in (1, 4, 10):
        done = run_tasks(range(count), str, place, partial(local_pipeline, 1))
        assert list(done) == [str(number) for number in range(count)]
    results = sorted(place.folder.glob(".work/*/results"), key=lambda path: path.stat().st_mtime_ns)
    assert len(pickle.loads(results[-1].read_bytes())) == 4


def test_one_process_needs_no_beam():
    code = (
        "import sys; from penstock.components.engine.tasks import run_tasks; "
        "print(list(run_tasks('12', int, None)), 'apache_beam' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[1, 2] False\n"


@pytest.mark.parametrize(
    ("mode", "workers", "engine"),
    [("multi_processing", 0, 7), ("multi_processing", 2, 2), ("in_memory", 3, 1)],
)
def test_engine_of_a_node_has_as_many_processes_as_beam_would_start(
    monkeypatch, tmp_path, mode, workers, engine
):
    monkeypatch.setattr(pipeline, "cpu_count", lambda: 7)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    args = [f"--direct_running_mode={mode}", f"--direct_num_workers={workers}"]
    options = PipelineOptions([*local_beam_args()[:1], *args])
    assert node_engine(lambda: beam.Pipeline(options=options)) == engine
    assert [*tmp_path.iterdir()] == []
