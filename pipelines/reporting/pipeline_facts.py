"""States and times of a run's nodes: run records in, plain facts out."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.pipelines.runs.run_note import RunNote
from penstock.pipelines.runs.run_record import NodeRun, RunRecord

_STOPPED = ("failed", "running", "cancelled")
_NOTHING = (None, "", "null", "{}", "[]")


@dataclass(frozen=True)
class NodeFacts(NodeRun):
    """A node of the pipeline in this run, by its last try; options that say nothing are left out.

    Where there was none, it is `skipped` by its condition or `not reached`.

    Attributes:
        tries: How often it was tried.
        upstream: The nodes that it waits for.
    """

    tries: int = 0
    upstream: Sequence[str] = ()


@dataclass(frozen=True)
class PipelineFacts:
    """The nodes of a run, in the order in which they began, those that did not run last.

    It is whole where those that were not reached are known.
    """

    nodes: Sequence[NodeFacts]
    is_whole: bool

    def stopped(self) -> NodeFacts | None:
        """The node that the run stopped at."""
        return next((node for node in self.nodes if node.state in _STOPPED), None)


def gather_pipeline(run: RunRecord, note: RunNote, earlier: Sequence[RunRecord]) -> PipelineFacts:
    """The nodes of a run; its note, or else earlier runs, tell which were not reached."""
    last = {node.node: node for node in run.nodes}
    tries = [node.node for node in run.nodes]
    upstream = note.upstream or _upstream_by_artifacts([run, *earlier])
    stopped = any(node.state in _STOPPED for node in last.values())
    facts = [_ran(node, tries.count(name), upstream.get(name, ())) for name, node in last.items()]
    state = "not reached" if stopped else "skipped"
    missing = [name for name in upstream if name not in last]
    facts += [NodeFacts(name, state, 0.0, (), upstream=upstream[name]) for name in missing]
    return PipelineFacts(facts, is_whole=bool(note.upstream) or not stopped)


def _ran(node: NodeRun, tries: int, upstream: Sequence[str]) -> NodeFacts:
    said = {n: v for n, v in sorted(node.options.items()) if v not in _NOTHING}
    return NodeFacts(**{**vars(node), "options": said}, tries=tries, upstream=upstream)


def _upstream_by_artifacts(runs: Sequence[RunRecord]) -> dict[str, list[str]]:
    """Who was given what whom made: all that a store without our note knows of the graph."""
    found: dict[str, list[str]] = {}
    for run in runs:
        maker = {a.id: node.node for node in run.nodes for a in node.outputs}
        for node in run.nodes:
            ups = [maker[a.id] for a in node.inputs if a.id in maker and maker[a.id] != node.node]
            found.setdefault(node.node, list(dict.fromkeys(ups)))
    return found
