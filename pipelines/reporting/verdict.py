"""The outcome of a run in one sentence: facts in, words out."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.pipelines.reporting.pipeline_facts import NodeFacts, PipelineFacts
from penstock.pipelines.runs.evaluation_result import EvaluationResult
from penstock.pipelines.runs.run_note import RunNote
from penstock.pipelines.runs.run_record import (
    RunRecord,
    is_set,
    plain_properties,
    serving_problems,
)

GOOD, BAD, NEUTRAL = "good", "bad", "neutral"
GATE = "ValidationGate"


@dataclass(frozen=True)
class Verdict:
    """What came of a run.

    Attributes:
        tone: `good`, `bad` or `neutral`.
        word: In a word or two, `Pushed`.
        sentence: Why, in one sentence.
        details: What the sentence only counts, a line each.
    """

    tone: str
    word: str
    sentence: str
    details: Sequence[str] = ()


def judge(
    run: RunRecord, pipeline: PipelineFacts, note: RunNote, evaluation: EvaluationResult | None
) -> Verdict:
    """The verdict on a run by its nodes, its note and what its Evaluator found, if it has one."""
    stopped = pipeline.stopped()
    if stopped is not None:
        return _stopped(stopped, note)
    pushed, blessing = run.artifact("PushedModel"), run.artifact("ModelBlessing")
    if blessing is not None and not is_set(blessing, "blessed"):
        failures = evaluation.failures if evaluation else ()
        return Verdict(BAD, "Not pushed", _not_blessed(failures), failures[1:])
    if problems := serving_problems(run):
        return Verdict(
            BAD, "Not pushed", f"The model cannot be served: {problems[0]}.", problems[1:]
        )
    reached = "every threshold is reached" if blessing is not None else "no Evaluator was asked"
    if pushed is not None and is_set(pushed, "pushed"):
        where = plain_properties(pushed).get("pushed_destination") or pushed.uri
        return Verdict(GOOD, "Pushed", f"The model is at {where}: {reached}.")
    if blessing is not None:
        return Verdict(GOOD, "Blessed", "Every threshold is reached; nothing pushes the model.")
    if run.artifact("Model") is not None:
        return Verdict(NEUTRAL, "Trained", "The model was neither evaluated nor pushed.")
    return Verdict(NEUTRAL, "Done", "All nodes ran; no model was trained.")


def _stopped(node: NodeFacts, note: RunNote) -> Verdict:
    # Before its state: what was interrupted stays running in the store until the next run.
    if note.error.startswith("interrupted in node "):
        return Verdict(NEUTRAL, "Interrupted", f"{note.error[:1].upper()}{note.error[1:]}.")
    if node.state == "running":
        return Verdict(NEUTRAL, "Running", f"{node.node} has begun and not ended.")
    if node.state == "cancelled":
        return Verdict(BAD, "Cancelled", f"{node.node} was cancelled.")
    word = "Blocked" if node.node.startswith(GATE) else "Failed"
    reason = note.error.removeprefix(f"node {node.node!r} failed: ").strip()
    if not reason:
        return Verdict(
            BAD, word, f"{node.node} failed; why is not in the metadata store, see its log."
        )
    first, *rest = [line.strip().removeprefix("- ") for line in reason.splitlines()]
    return Verdict(BAD, word, f"{node.node}: {first}", rest)


def _not_blessed(failures: Sequence[str]) -> str:
    if not failures:
        return "The model is not blessed; the Evaluator gave no reason."
    more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
    return f"{failures[0]}{more}."
