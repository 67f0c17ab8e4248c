"""Spans of data that a command names, and the finished runs of these spans."""

import datetime
import json
from collections.abc import Callable
from typing import Any

from penstock.components.errors import DataError, PenstockError, UsageError
from penstock.pipelines.runs.run_note import config_of, read_note
from penstock.pipelines.runs.run_record import RunRecord, all_runs, plain_properties

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_FINGERPRINT = "input_fingerprint"


def parse_spans(text: str) -> range:
    """Parses spans such as `5`, `3..7` or `2026-01-03..2026-01-09`; dates become days since 1970.

    Raises:
        UsageError: The text has none of these forms, or the last span is before the first.
    """
    first, dots, last = text.partition("..")
    try:
        spans = range(_number(first), _number(last if dots else first) + 1)
    except ValueError as error:
        raise UsageError(
            f"--spans takes a span, such as 5 or 2026-01-03, or FIRST..LAST; got {text!r}"
        ) from error
    if not spans:
        raise UsageError(f"--spans: {last} is before {first}")
    return spans


def _number(text: str) -> int:
    if text.isdecimal():
        return int(text)
    return datetime.date.fromisoformat(text).toordinal() - _EPOCH


def check_spans(address: Any, wanted: range) -> None:
    """Checks that an address of data has all wanted spans.

    Raises:
        DataError: Spans are missing; the message names them.
        UsageError: The address has no placeholder such as `{SPAN}`.
    """
    from penstock.components.example_gen.spans import has_span, spans_at

    if not isinstance(address, str) or not has_span(address):
        raise UsageError(
            f"--spans needs the option data with {{SPAN}}, or {{YYYY}}, {{MM}} and {{DD}}, in its "
            f"name, got {address!r}"
        )
    found = spans_at(address)
    if missing := [span for span in wanted if span not in found]:
        there = ", ".join(map(str, sorted(found))) or "none"
        raise DataError(
            f"{address}: lacks {', '.join(map(str, missing))} of the spans; there are {there}"
        )


def run_spans(
    spans: range,
    start: Callable[[int], object],
    finished: Callable[[int], str],
    say: Callable[[str], object],
    *,
    quiet: bool = False,
    chained: bool = True,
) -> None:
    """Runs spans in order until one fails; skips finished spans if there are several spans.

    `finished` returns the id of a finished run of a span, or "" if there is none. If runs are
    `chained`, all spans from the first unfinished one on are run, even finished ones among them.
    """
    redo = is_one = len(spans) == 1
    for span in spans:
        if not redo and (done := finished(span)):
            say(f"span {span}: skipped, finished by run {done}")
            continue
        if not (is_one or quiet):
            say(f"span {span}")
        try:
            start(span)
        except PenstockError as error:
            on = "" if is_one else f"\n  the same command continues with span {span}"
            raise type(error)(f"span {span}: {error}{on}") from error
        redo = redo or chained


def finished_run(store: Any, pipeline: str, config: Any, fingerprint: str) -> RunRecord | None:
    """Returns a pipeline's newest run without an error, with the same options and input, or None.

    Args:
        store: An `ml_metadata.MetadataStore`.
        pipeline: Name of the pipeline.
        config: Options of the pipeline, with the span.
        fingerprint: Fingerprint of the input's content.
    """
    options = json.loads(json.dumps(config_of(config), default=str))
    for run in all_runs(store):
        note = read_note(run)
        if run.pipeline == pipeline and note.config == options and not note.error:
            last = {node.node: node for node in run.nodes}.values()
            has_failed = any(node.state not in ("done", "cached") for node in last)
            if not has_failed and fingerprint in _fingerprints(run):
                return run
    return None


def _fingerprints(run: RunRecord) -> set[Any]:
    """Returns all input fingerprints; cached nodes have them only in properties of outputs."""
    known = [node.options for node in run.nodes]
    known += [plain_properties(one) for node in run.nodes for one in node.outputs]
    return {options.get(_FINGERPRINT) for options in known}
