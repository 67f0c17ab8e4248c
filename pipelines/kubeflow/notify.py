"""Last task of a run on Kubeflow: sends the result to a webhook, shows the report.

In: the run in the metadata store. Out: one JSON message, and the run's report as KFP's HTML. The
task also runs after a failure, even if no node started, as with an image that cannot be pulled.
"""

import json
import os
import time
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
from penstock.pipelines.runs.run_record import RunRecord, all_runs

_TIMEOUT_SECONDS = 30
_TRIES = 3


def notify(
    store: MetadataStore,
    run_id: str,
    *,
    pipeline: str,
    nodes: Sequence[str],
    link: str,
    executor_input: str | None,
) -> str:
    """Sends and returns the message; the address of a webhook is in `PENSTOCK_WEBHOOK`."""
    runs = _runs(store)
    run = next((one for one in runs if one.run_id == run_id), None)
    verdict, page = _verdict(run, [one for one in runs if run and one.began < run.began], nodes)
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


def _runs(store: MetadataStore) -> list[RunRecord]:
    try:
        with open_reading(store) as opened:
            return list(all_runs(opened))
    except DataError as error:  # no store yet if the first pod failed
        print(error, flush=True)
        return []


def _verdict(
    run: RunRecord | None, earlier: Sequence[RunRecord], nodes: Sequence[str]
) -> tuple[Verdict, str]:
    if run is None:
        return Verdict(BAD, "Failed", "No node began; the events of its pods say why."), ""
    page = ""
    try:
        report = gather(run, earlier)
        verdict, page = report.verdict, render_report(report)
    except Exception as error:  # the message must be sent even without a report
        print(f"penstock: no report of {run.run_id}: {one_line(error)}", flush=True)
        note = read_note(run)
        verdict = judge(run, gather_pipeline(run, note, ()), note, None)
    if lost := [node.node for node in run.nodes if node.state == "running"]:
        return Verdict(BAD, "Failed", f"{lost[-1]} began and was lost with its pod."), page
    if idle := [one for one in nodes if one not in {node.node for node in run.nodes}]:
        sentence = f"{verdict.sentence} Did not run: {', '.join(idle)}."
        return replace(verdict, sentence=sentence), page
    return verdict, page


def _post(address: str, text: str) -> None:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, text.encode(), headers)
    for number in range(1, _TRIES + 1):
        try:
            urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS).close()
            return
        except (OSError, ValueError) as error:
            # The address may hold a token.
            why = f"HTTP {error.code}" if isinstance(error, urllib.error.HTTPError) else ""
            if number == _TRIES:
                raise DataError(
                    f"the webhook of {WEBHOOK} took no message "
                    f"({why or one_line(error).replace(address, 'its address')})"
                ) from None
            time.sleep(number)
