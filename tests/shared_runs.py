"""Pipeline runs that many tests read, made once per session for all pytest-xdist workers."""

import fcntl
import json
import re
import shutil
from contextlib import contextmanager

from penstock.pipelines.terminal.progress import Progress


@contextmanager
def locked(root):
    """Keeps other workers out while a folder is made."""
    with root.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def report_of(root):
    """The facts in the report of the newest run in a folder."""
    from penstock.pipelines.reporting.gather import gather
    from penstock.pipelines.runs.stores import locate

    place = locate(str(root), "runs")
    return gather(place.run, place.earlier)


def words(page):
    """A page's text, without tags."""
    page = page.replace("<wbr>", "")
    return " ".join(re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL).split())


def states(summary):
    """States of all nodes except the resolver `Baseline`, which always runs."""
    return {n["node"]: n["state"] for n in summary["nodes"] if n["node"] != "Baseline"}


class SharedRun:
    """The first run of a pipeline, shared by tests; one test file may run the pipeline again.

    Attributes:
        root: Root of the pipeline.
        assignments: Assignments of the first run, in the form `key=value`.
        first: Folder with the metadata and the report in their state after the first run.
    """

    def __init__(self, penstock, name, root, *assignments):
        self.root, self.assignments = root, assignments
        self.first = root.with_name(f"{root.name}-first")
        self.penstock, self.name = penstock, name
        with locked(root):
            if not self.first.exists():
                summary = self.run_well()
                self.first.mkdir()
                for file in (root / "report.html", root / "metadata.sqlite"):
                    shutil.copy(file, self.first)
                (self.first / "summary.json").write_text(json.dumps(summary))

    @property
    def summary(self):
        """Summary of the first run."""
        return json.loads((self.first / "summary.json").read_text())

    def command(self, *assignments, name=None):
        """The command that runs this pipeline (or `name`) with additional assignments."""
        sets = [part for text in (*self.assignments, *assignments) for part in ("--set", text)]
        return ("run", name or self.name, "--root", self.root, *sets)

    def run(self, *assignments):
        """Runs the pipeline again with text output; returns the finished process."""
        return self.penstock(*self.command(*assignments))

    def run_well(self, *assignments, name=None, cwd=None):
        """Runs the pipeline with `--json`, requires success; returns the summary of the run."""
        done = self.penstock(*self.command(*assignments, name=name), "--json", cwd=cwd)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


class Record(Progress):
    """Remembers how each node ended."""

    def __init__(self):
        self.nodes, self.ended = [], {}

    def plan(self, nodes):
        self.nodes = list(nodes)

    def end(self, node, state):
        self.ended[node] = state


def small_pipeline(name, root, *nodes):
    """A pipeline of nodes with its metadata and artifacts below `root`."""
    from tfx.orchestration.metadata import sqlite_metadata_connection_config
    from tfx.orchestration.pipeline import Pipeline

    return Pipeline(
        pipeline_name=name,
        pipeline_root=str(root / "pipeline"),
        components=list(nodes),
        enable_cache=True,
        metadata_connection_config=sqlite_metadata_connection_config(str(root / "metadata.sqlite")),
    )


def run_nodes(name, root, *nodes):
    """Runs nodes in this process; returns how each of them ended."""
    from penstock.pipelines.local.runner import run_locally

    record = Record()
    run_locally(small_pipeline(name, root, *nodes), record)
    return record.ended


def run_stock(root, *nodes):
    """Runs nodes with TFX's own runner; returns the Examples of this run and of earlier ones."""
    from tfx.orchestration.local.local_dag_runner import LocalDagRunner
    from tfx.orchestration.metadata import Metadata

    pipeline = small_pipeline("test", root, *nodes)
    LocalDagRunner().run(pipeline)
    with Metadata(pipeline.metadata_connection_config) as handle:
        return handle.store.get_artifacts_by_type("Examples")
