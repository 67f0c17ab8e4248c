"""Nodes, lineage and outcome of a run from its record and note, as plain facts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.components.evaluator.evaluation import Evaluation
from penstock.components.files.address import masked
from penstock.components.files.secrets import hide_secret
from penstock.components.tfrecord.manifest import Manifest
from penstock.pipelines.runs.run_note import RunNote, redacted
from penstock.pipelines.runs.run_record import (
    NodeRun,
    RunRecord,
    is_set,
    plain_properties,
    retraining,
    serving_problems,
)

GOOD, BAD, NEUTRAL = "good", "bad", "neutral"
GATE = "ValidationGate"
_PLACES = ("input_base", "schema_file")
_DIGESTS = ("input_fingerprint", "schema_sha256")

_STOPPED = ("failed", "running", "cancelled")
_NOTHING = (None, "", "null", "{}", "[]")


@dataclass(frozen=True)
class NodeFacts(NodeRun):
    """The last attempt of a node in the run; `options` has no empty values.

    The state of a node without attempts is `not reached` if another node did not finish, else
    `skipped`.

    Attributes:
        tries: Number of attempts.
    """

    tries: int = 0
    upstream: Sequence[str] = ()


@dataclass(frozen=True)
class PipelineFacts:
    """Nodes of a run in the order of their start; nodes that did not run come last.

    `is_whole` is True if the nodes that were not reached are known.
    """

    nodes: Sequence[NodeFacts]
    is_whole: bool

    def stopped(self) -> NodeFacts | None:
        return next((node for node in self.nodes if node.state in _STOPPED), None)


def gather_pipeline(run: RunRecord, note: RunNote, earlier: Sequence[RunRecord]) -> PipelineFacts:
    """Gathers the nodes of a run; its note or earlier runs tell which ones were not reached."""
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
    found: dict[str, list[str]] = {}
    for run in runs:
        maker = {a.id: node.node for node in run.nodes for a in node.outputs}
        for node in run.nodes:
            ups = [maker[a.id] for a in node.inputs if a.id in maker and maker[a.id] != node.node]
            found.setdefault(node.node, list(dict.fromkeys(ups)))
    return found


@dataclass(frozen=True)
class Origin:
    node: str
    place: str
    digest: str


@dataclass(frozen=True)
class LineageFacts:
    """Facts for repeating the run, as far as they are recorded.

    Attributes:
        code_digests: Digest of the user's code by node.
        options: Exec properties by node and name, with JSON parsed and secrets redacted.
    """

    command: str
    origins: Sequence[Origin]
    code: str
    code_digests: Mapping[str, str]
    versions: Mapping[str, str]
    machine: str
    options: Mapping[str, Mapping[str, Any]]


def gather_lineage(
    run: RunRecord, note: RunNote, pipeline: PipelineFacts, manifest: Manifest | None
) -> LineageFacts:
    origins = []
    for node in run.nodes:
        # If a node's output comes from the cache, the digest is not among the node's options, but
        # among the output's properties.
        known = [node.options, *(plain_properties(artifact) for artifact in node.outputs)]
        place = _first(known, _PLACES)
        if place:
            if hide_secret("", place) != place:
                place = hide_secret("", masked(place))
            origins.append(Origin(node.node, place, _first(known, _DIGESTS)))
    if manifest is not None:
        origins.append(Origin("Rows", "as they were read", manifest.source_fingerprint))
    options = {n.node: redacted("", n.options, parse=True) for n in pipeline.nodes if n.options}
    configs = {node: of.get("custom_config") for node, of in options.items()}
    return LineageFacts(
        note.command,
        origins,
        note.code,
        {n: str(c["code"]) for n, c in configs.items() if isinstance(c, dict) and c.get("code")},
        note.versions or _versions_of_artifacts(run),
        note.machine,
        options,
    )


def _first(known: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    found = (str(k[name]) for k in known for name in names if k.get(name))
    return next(found, "")


def _versions_of_artifacts(run: RunRecord) -> dict[str, str]:
    """Returns the version of TFX, the only version that TFX records with an artifact."""
    made = [plain_properties(artifact) for node in run.nodes for artifact in node.outputs]
    version = _first(made, ("tfx_version",))
    return {"tfx": version} if version else {}


@dataclass(frozen=True)
class Verdict:
    """Result of a run.

    Attributes:
        tone: `good`, `bad` or `neutral`.
        word: Result in one or two words, such as `Pushed`.
    """

    tone: str
    word: str
    sentence: str
    details: Sequence[str] = ()


def judge(
    run: RunRecord, pipeline: PipelineFacts, note: RunNote, evaluation: Evaluation | None
) -> Verdict:
    stopped = pipeline.stopped()
    if stopped is not None:
        return _stopped(stopped, note)
    pushed, blessing = run.artifact("PushedModel"), run.artifact("ModelBlessing")
    if blessing is not None and not is_set(blessing, "blessed"):
        unknown = ("The model is not blessed; the Evaluator gave no reason",)
        first, *rest = (evaluation.failures if evaluation else ()) or unknown
        more = f", and {len(rest)} more" if rest else ""
        return Verdict(BAD, "Not pushed", f"{first}{more}.", rest)
    if problems := serving_problems(run):
        first, *rest = problems
        return Verdict(BAD, "Not pushed", f"The model cannot be served: {first}.", rest)
    reached = "every threshold is reached" if blessing is not None else "no Evaluator was asked"
    if pushed is not None and is_set(pushed, "pushed"):
        where = plain_properties(pushed).get("pushed_destination") or pushed.uri
        return Verdict(GOOD, "Pushed", f"The model is at {where}: {reached}.")
    if blessing is not None:
        return Verdict(GOOD, "Blessed", "Every threshold is reached; nothing pushes the model.")
    asked = retraining(run)
    if asked is not None and not asked.is_done:
        return Verdict(GOOD, "Not retrained", f"The data does not ask for it: {asked.reason}.")
    if missing := [node.node for node in pipeline.nodes if not node.tries]:
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        why = "a condition skipped them, or the run was ended from outside"
        return Verdict(NEUTRAL, "Not complete", f"{missing[0]}{more} did not run: {why}.")
    if run.artifact("Model") is not None:
        return Verdict(NEUTRAL, "Trained", "The model was neither evaluated nor pushed.")
    return Verdict(NEUTRAL, "Done", "All nodes ran; no model was trained.")


def _stopped(node: NodeFacts, note: RunNote) -> Verdict:
    # The note is checked before the state, because the store shows an interrupted node as RUNNING
    # until the next run.
    if note.error.startswith("interrupted in node "):
        return Verdict(NEUTRAL, "Interrupted", f"{note.error[:1].upper()}{note.error[1:]}.")
    if node.state == "running":
        return Verdict(NEUTRAL, "Running", f"{node.node} has begun and not ended.")
    if node.state == "cancelled":
        return Verdict(BAD, "Cancelled", f"{node.node} was cancelled.")
    word = "Blocked" if node.node.startswith(GATE) else "Failed"
    reason = note.error.removeprefix(f"node {node.node!r} failed: ").strip()
    if not reason:
        why = "why is not in the metadata store, see its log"
        return Verdict(BAD, word, f"{node.node} failed; {why}.")
    first, *rest = [line.strip().removeprefix("- ") for line in reason.splitlines()]
    return Verdict(BAD, word, f"{node.node}: {first}", rest)
