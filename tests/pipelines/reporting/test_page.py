"""The whole page for hand-made runs, with its numbers read back from the HTML."""

import subprocess
from html.parser import HTMLParser

import pytest

from penstock.components.tfrecord.manifest import (
    Manifest,
    ManifestColumn,
    RowAccount,
    Shard,
    write_manifest,
)
from penstock.components.trainer.record import EpochRecord, TrainingRecord, write_training_record
from penstock.pipelines.reporting.gather import gather
from penstock.pipelines.reporting.page import render_report
from penstock.pipelines.runs.run_note import RunNote, write_note

EVIL = "<script>document.title='owned'</script>"
VOID = {"meta", "input", "br", "img", "link", "wbr", "path", "rect", "use", "image"}


class Page(HTMLParser):
    """A parsed page: its tags, ids, link targets, table rows and text, and tags still open."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.hrefs, self.open, self.rows = [], [], [], [], []
        self.text = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "a":
            self.hrefs.append(attributes["href"])
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.text.append(data)
        if self.open and {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    def row(self, first):
        [found] = [row for row in self.rows if row and row[0] == first]
        return found


def rendered(runs):
    report = gather(*runs.newest())
    return report, Page(render_report(report))


def epoch(number, **metrics):
    return EpochRecord(number, 10 * number, 10, metrics, 0.01 / number, 2.0, 0.002, 5120.0)


@pytest.fixture(scope="module")
def whole(runs_in, tmp_path_factory):
    """Facts and page of a run that has data in most sections; the data contains HTML markup."""
    tmp_path = tmp_path_factory.mktemp("whole")
    runs = runs_in(tmp_path)
    write = runs.write_records
    rows = [runs.example(**{EVIL: 1.5, "kind": b"<b>", "label": 1}) for _ in range(3)]
    write(tmp_path / "examples/Split-train/data_tfrecord-00000-of-00001", rows)
    write_manifest(
        tmp_path / "examples",
        Manifest(
            splits={
                "train": (Shard("Split-train/data_tfrecord-00000-of-00001", 3, 2048, "ab12"),),
                "eval": (),
            },
            columns=(ManifestColumn("kind", "BYTES"),),
            schema_sha256="cd34",
            source_kind="csv",
            source_fingerprint="ef56",
            source_files=2,
            account=RowAccount(read=6, written={"train": 3, "eval": 0}, quarantined=2, blank=1),
            plan="1 for so few",
            quarantine="quarantine",
        ),
    )
    (tmp_path / "examples/quarantine").mkdir()
    (tmp_path / "examples/quarantine/rejected-00000.jsonl").write_text(
        '{"file": "a.csv", "line": 3, "row": 2, "column": "fare", '
        '"reason": "\'abc\' is not a number", "raw": "abc,<i>"}\n'
        '{"file": "a.csv", "line": 9, "row": 8, "column": "fare", '
        '"reason": "\'x\' is not a number", "raw_base64": "/w=="}\n'
    )
    counts = [1, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    numbers = [(EVIL, 1, 0.0, 10.0, counts)]
    for split, count, texts in (("train", 4, {"<b>": 3}), ("eval", 2, {"<b>": 1, "c": 1})):
        runs.write_statistics(tmp_path / "statistics", split, count, numbers, [("kind", texts)])
    runs.write_anomalies(tmp_path / "anomalies", "train", kind="Unexpected: <b>.")
    runs.write_anomalies(tmp_path / "anomalies", "eval")
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema/schema.pbtxt").write_text(
        'feature { name: "kind" type: BYTES presence { min_fraction: 0.9 } domain: "kind" }'
        'string_domain { name: "kind" value: "c" }'
    )
    record = TrainingRecord(
        [epoch(1, loss=0.7, val_loss=0.6), epoch(2, loss=0.5, val_loss=0.4)],
        20, "all 20 steps done", 2, "val_loss", 2, 10, 1, 4.0, 0.5,
    )  # fmt: skip
    write_training_record(tmp_path / "run", record)
    counted = {"example_count": 100.0, "binary_accuracy": 0.9, "precision": 0.8, "recall": 0.8}
    runs.write_evaluation(
        tmp_path / "evaluation",
        [
            runs.slice_metrics(counted, "candidate"),
            runs.slice_metrics({**counted, "binary_accuracy": 0.925}, "baseline"),
            runs.slice_metrics({"example_count": 60.0, "binary_accuracy": 0.8}, kind=EVIL),
            runs.slice_metrics({"example_count": 40.0, "binary_accuracy": 0.95}, kind="$a$"),
        ],
        [("BinaryAccuracy", {"valueThreshold": {"lowerBound": 0.85},
                             "changeThreshold": {"absolute": -0.01}})],
    )  # fmt: skip
    examples = runs.node(
        "run-1", "Gen", "cached", (), [runs.artifact("Examples", tmp_path / "examples")],
        input_base="/data/<trips>", input_fingerprint="0123",
    )  # fmt: skip
    schema = runs.node(
        "run-1", "Schema", "done", (), [runs.artifact("Schema", tmp_path / "schema")]
    )
    found = runs.artifact("ExampleStatistics", tmp_path / "statistics")
    statistics = runs.node("run-1", "Statistics", "done", examples, [found])
    wrong = runs.artifact("ExampleAnomalies", tmp_path / "anomalies")
    runs.node("run-1", "Validator", "done", [*statistics, *schema], [wrong])
    trained = runs.artifact("ModelRun", tmp_path / "run")
    runs.node("run-1", "Trainer", "done", examples, [trained], custom_config='{"code": "77aa"}')
    judged = [
        runs.artifact("ModelEvaluation", tmp_path / "evaluation"),
        runs.artifact("ModelBlessing", tmp_path / "blessing", blessed=0),
    ]
    runs.node("run-1", "Evaluator", "done", examples, judged)
    note = RunNote(
        command="penstock run hand --set 'a=<b>'",
        config={
            "model_card": {
                "intended_use": "Trips & <b>",
                "limits": "DRAFT: x",
                "owners": ["Ada", "Ben"],
            }
        },
        upstream={"Gen": [], "Schema": [], "Statistics": ["Gen"], "Pusher": ["Evaluator"]},
        versions={"tfx": "1.16.0"},
        code="9f3c-dirty",
    )
    write_note(runs.store, "run-1", note)
    return rendered(runs)


def test_the_page_says_what_the_artifacts_say(whole):
    report, page = whole
    text = " ".join("".join(page.text).split())
    assert report.missing == []
    assert "Not pushed The model is not blessed; the Evaluator gave no reason." in text
    assert "6 rows read = 3 written + 2 quarantined + 1 blank." in text
    assert "From 2 files of csv." in text
    assert page.row("train") == ["train", "3", "100 %", "1", "2.0 KiB", "2.0 KiB", "2.0 KiB"]
    assert page.row("fare") == ["fare", "'abc' is not a number", "2"]
    assert ["a.csv", "9", "8", "fare", "'x' is not a number", "\\xff"] in page.rows
    assert "2 features; 4 rows of train, 2 rows of eval." in text
    assert page.row("1")[:4] == ["1", "10", "0.7000", "0.6000"]
    assert "20 steps in 4.0 s; all 20 steps done. Resumed at step 10." in text
    assert "unknown: too few steps to time" in text
    accuracy = [row for row in page.rows if row and row[0] == "binary_accuracy"]
    assert accuracy[0] == [
        "binary_accuracy", "0.9000", "0.8256 to 0.9448", "0.9250", "-0.0250"
    ]  # fmt: skip
    change = "a change of at least -0.01 to the model blessed before (is -0.0250)"
    assert accuracy[1:] == [
        ["binary_accuracy", "overall", limit, "0.9000"] for limit in ("at least 0.85", change)
    ]
    # accuracy 0.9, precision 0.8 and recall 0.8 for 100 rows: 25 positive, 20 of them found.
    assert page.row("negative") == ["negative", "70", "5"]
    assert page.row("positive") == ["positive", "5", "20"]
    assert f"Worst by binary_accuracy: kind={EVIL} 0.8000" in text
    assert "Trips & <b>" in text
    assert "Ada, Ben" in text
    assert "not filled in: set model_card.licence" in text
    assert "Limits (draft)DRAFT: x" in text
    assert "penstock run hand --set 'a=<b>'" in text
    assert page.row("Code") == ["Code", "commit of the working folder", "9f3c-dirty"]
    assert ["Gen", "/data/<trips>", "0123"] in page.rows
    assert ["Trainer", "the code behind it", "77aa"] in page.rows


def test_features_stand_side_by_side(whole):
    _, page = whole
    [row] = [r for r in page.rows if r and r[0] == "kind" and len(r) == 7]
    #       name    type      train eval  missing      typical     skew
    assert row == ["kind", "string", "", "", "25 % / 0 %", "<b> 75 %", "0.500"]
    [row] = [r for r in page.rows if r and r[0] == EVIL and len(r) == 7]
    assert row[4] == "25 % / 50 %"
    assert ["0.0 to 1.0", "1", "1"] in page.rows


def test_an_anomaly_and_the_states_of_nodes_are_shown(whole):
    _, page = whole
    [row] = [r for r in page.rows if r and r[0] == "kind" and "error" in r]
    assert row == ["kind", "train", "error", "Odd values. Unexpected: <b>."]
    labels = {a["aria-label"] for tag, a in page.tags if tag == "a" and "aria-label" in a}
    assert {"Gen: cached", "Pusher: skipped"} <= labels


def test_values_from_data_are_shown_and_never_run(whole):
    report, page = whole
    html = render_report(report)
    assert EVIL not in html
    assert "&lt;script&gt;" in html
    assert [tag for tag, _ in page.tags].count("script") == 1


@pytest.mark.slow
def test_a_browser_runs_no_script_of_the_data(whole, tmp_path):
    (tmp_path / "page.html").write_text(render_report(whole[0]))
    assert "<title>hand: not pushed" in in_browser(tmp_path / "page.html")


SORT_BY_ACCURACY = """<script>
const table = document.querySelector("#evaluation table.filtered");
const head = table.tHead.rows[0].cells[1];
const first = () => table.tBodies[0].rows[0].cells[0].textContent;
head.querySelector("button").click();
const down = [head.getAttribute("aria-sort"), first()];
head.querySelector("button").click();
document.title = JSON.stringify([down, [head.getAttribute("aria-sort"), first()]]);
</script>"""


@pytest.mark.slow
def test_tables_sort_by_their_buttons(whole, tmp_path):
    html = render_report(whole[0])
    (tmp_path / "page.html").write_text(html.replace("</body>", f"{SORT_BY_ACCURACY}</body>"))
    shown = in_browser(tmp_path / "page.html")
    assert '<title>[["descending","kind=$a$"],["ascending","kind=&lt;script&gt;' in shown


def in_browser(file):
    """The page in Chromium after its scripts have run."""
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    done = subprocess.run(
        [*command, file.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def test_the_page_is_whole_and_fetches_nothing(whole):
    report, page = whole
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert {href[1:] for href in page.hrefs} <= set(page.ids)
    addresses = [a.get(name) for _, a in page.tags for name in ("src", "href", "xlink:href")]
    assert all(a.startswith(("#", "data:")) for a in addresses if a is not None)
    html = render_report(report)
    assert "url(http" not in html
    assert html == render_report(report)  # a second rendering gives plots the same ids


def test_tables_and_figures_have_names_for_a_screen_reader(whole):
    _, page = whole
    assert all("scope" in a for tag, a in page.tags if tag == "th")
    plots = [a for tag, a in page.tags if tag == "svg" and a.get("class") == "plot"]
    assert len(plots) == 3  # loss, learning rate, slices
    named = {name for a in plots for name in a["aria-labelledby"].split()}
    assert named <= set(page.ids)


@pytest.mark.parametrize(
    ("state", "error", "word", "sentence"),
    [
        (
            "failed",
            "node 'Trainer' failed: the loss became nan at step 2",
            "Failed",
            "Trainer: the loss became nan at step 2",
        ),
        (
            "running",
            "interrupted in node 'Trainer'; run again to continue from there",
            "Interrupted",
            "Interrupted in node 'Trainer'; run again to continue from there.",
        ),
        (
            "done",  # a run that was terminated in KFP between two nodes
            "",
            "Not complete",
            "Pusher did not run: a condition skipped them, or the run was ended from outside.",
        ),
    ],
)
def test_a_run_that_stopped_says_why(runs, tmp_path, state, error, word, sentence):
    runs.node("run-1", "Gen", "done", (), [runs.artifact("Examples", tmp_path / "nowhere")])
    runs.node("run-1", "Trainer", state)
    upstream = {"Gen": [], "Trainer": ["Gen"], "Pusher": ["Trainer"]}
    write_note(runs.store, "run-1", RunNote(upstream=upstream, error=error))
    report, page = rendered(runs)
    assert (report.verdict.word, report.verdict.sentence) == (word, sentence)
    assert page.row("Pusher")[1] == ("skipped" if state == "done" else "not reached")
    assert report.missing == [f"the data: {tmp_path}/nowhere: No such file or directory"]


def test_drift_is_against_the_last_blessed_run(runs, tmp_path):
    counts = {"first": [10, 0], "refused": [0, 10], "third": [5, 5]}
    for i, (name, buckets) in enumerate(counts.items()):
        numbers = [("x", 0, 0.0, 2.0, buckets)]
        runs.write_statistics(tmp_path / name, "train", 10, numbers)
        artifact = runs.artifact("ExampleStatistics", tmp_path / name)
        runs.node(f"run-{i}", "StatisticsGen", "done", (), [artifact])
        blessing = runs.artifact("ModelBlessing", tmp_path / "b", blessed=int(name == "first"))
        runs.node(f"run-{i}", "Evaluator", "done", (), [blessing])
    report, page = rendered(runs)
    assert report.statistics.compared_with == "run-0"
    # All values of the first run, and half of the values of the third run, lie below the middle of
    # the range.
    assert report.statistics.features[0].drift == 0.5
    assert "0.500" in next(row for row in page.rows if row and row[0] == "x")


def test_a_hundred_features_and_ten_thousand_slices_stay_small(runs, tmp_path):
    numbers = [(f"feature_{i}", i, 0.0, 10.0 + i, [i + 1] * 10) for i in range(100)]
    for split in ("train", "eval"):
        runs.write_statistics(tmp_path / "statistics", split, 1000, numbers)
    names = ("example_count", "auc", "binary_accuracy", "precision", "recall")
    values = dict(zip(names, (50.0, 0.9123, 0.8123, 0.7123, 0.6123), strict=True))
    slices = [runs.slice_metrics(values, user=f"user-{i:05}") for i in range(10_000)]
    runs.write_evaluation(tmp_path / "evaluation", [runs.slice_metrics(values), *slices])
    artifacts = [
        runs.artifact("ExampleStatistics", tmp_path / "statistics"),
        runs.artifact("ModelEvaluation", tmp_path / "evaluation"),
    ]
    runs.node("run-1", "All", "done", (), artifacts)
    report = gather(*runs.newest())
    html = render_report(report)
    assert report.missing == []
    assert html.count("user-0") > 9_000
    assert "Mind: only 50 rows were evaluated: below 100 whether a threshold is " in html
    assert len(html.encode()) < 10_000_000
