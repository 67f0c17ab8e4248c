"""Last task of a run on Kubeflow: sends the result to a webhook, and shows the report.

Input: the run in the metadata store. Output: one JSON message, and the run's report as KFP's HTML.
The task also runs after a failure, even if no node started.
"""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import replace

from penstock.components.errors import DataError, one_line
from penstock.pipelines.kubeflow.executor import ExecutorInput, write_text
from penstock.pipelines.kubeflow.names import WEBHOOK
from penstock.pipelines.kubeflow.outputs import HTML
from penstock.pipelines.reporting.gather import gather
from penstock.pipelines.reporting.page import render_report
from penstock.pipelines.reporting.run_facts import BAD, Verdict, gather_pipeline, judge
from penstock.pipelines.runs.metadata_store import MetadataStore, open_reading
from penstock.pipelines.runs.run_note import read_note
from penstock.pipelines.runs.run_record import all_runs

_TIMEOUT_SECONDS = 30


def notify(
    store: MetadataStore,
    run_id: str,
    *,
    pipeline: str,
    nodes: Sequence[str],
    link: str,
    executor_input: str | None,
) -> str:
    """Sends the message to the address in `PENSTOCK_WEBHOOK` and returns the message's text.

    Also writes the report if `executor_input` is given.
    """
    verdict, page = _verdict(store, run_id, nodes)
    link = link.replace("RUN_ID", run_id)
    line = " ".join(filter(None, [f"{pipeline}: {verdict.word}.", verdict.sentence, link]))
    message = {
        "text": line,  # Slack, Mattermost and Google Chat show this
        "pipeline": pipeline,
        "run": run_id,
        "verdict": verdict.word,
        "sentence": verdict.sentence,
        "link": link,
    }
    if executor_input is not None:
        write_text(ExecutorInput.parse(executor_input).output_path(HTML), page or line)
    _post(os.environ[WEBHOOK], json.dumps(message))
    return line


def _verdict(store: MetadataStore, run_id: str, nodes: Sequence[str]) -> tuple[Verdict, str]:
    """Returns the verdict on a run, and its report as HTML, which is "" if there is no report."""
    try:
        with open_reading(store) as opened:
            runs = list(all_runs(opened))
    except DataError as error:  # there is no store yet if the first pod failed
        print(error, flush=True)
        runs = []
    run = next((one for one in runs if one.run_id == run_id), None)
    if run is None:
        return Verdict(BAD, "Failed", "No node began; the events of its pods say why."), ""
    try:
        report = gather(run, [one for one in runs if one.began < run.began])
        verdict, page = report.verdict, render_report(report)
    except Exception as error:  # the message must be sent even without a report
        print(f"penstock: no report of {run_id}: {one_line(error)}", flush=True)
        note = read_note(run)
        verdict, page = judge(run, gather_pipeline(run, note, ()), note, None), ""
    ran = {node.node: node.state for node in run.nodes}
    if lost := [node for node, state in ran.items() if state == "running"]:
        return Verdict(BAD, "Failed", f"{lost[-1]} began and was lost with its pod."), page
    if idle := [one for one in nodes if one not in ran]:
        sentence = f"{verdict.sentence} Did not run: {', '.join(idle)}."
        return replace(verdict, sentence=sentence), page
    return verdict, page


def _post(address: str, text: str) -> None:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, text.encode(), headers)
    try:
        urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS).close()
    except (OSError, ValueError) as error:
        # The address may contain a token, so the error does not show it.
        why = f"HTTP {error.code}" if isinstance(error, urllib.error.HTTPError) else ""
        raise DataError(
            f"the webhook of {WEBHOOK} took no message "
            f"({why or one_line(error).replace(address, 'its address')})"
        ) from None
