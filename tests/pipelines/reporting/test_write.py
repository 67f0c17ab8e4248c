"""Tests the note and report of a run; an error in the report must not change the outcome."""

from dataclasses import dataclass, field
from types import SimpleNamespace

from penstock.pipelines.reporting.model_card import ModelCard, read_model_card
from penstock.pipelines.reporting.write import report_run
from penstock.pipelines.runs.run_note import read_note, take_note


@dataclass(frozen=True)
class Config:
    steps: int = 3
    model_card: ModelCard = field(default_factory=lambda: ModelCard(owners=("Ada",)))


@dataclass(frozen=True)
class SecretConfig:
    source: dict


class Node(SimpleNamespace):
    __hash__ = object.__hash__


def make(**upstream):
    nodes = {name: Node(id=name, upstream_nodes=set()) for name in upstream}
    for name, ups in upstream.items():
        nodes[name].upstream_nodes = {nodes[up] for up in ups}
    return SimpleNamespace(pipeline_name="hand", components=list(nodes.values()))


def test_the_note_has_what_the_store_does_not_know(runs, tmp_path):
    runs.node("run-1", "Gen", "done")
    runs.node("run-1", "Gate", "failed")
    whole = make(Gen=(), Gate=("Gen",), Trainer=("Gate",))
    metadata = tmp_path / "metadata.sqlite"
    _, written = report_run(
        runs.store, whole, Config(), metadata, since=0, error="node 'Gate' failed: x"
    )
    assert written == str(tmp_path / "report.html")
    run, _ = runs.newest()
    note = read_note(run)
    assert note.upstream == {"Gen": [], "Gate": ["Gen"], "Trainer": ["Gate"]}
    assert note.error == "node 'Gate' failed: x"
    assert note.config["steps"] == 3
    assert read_model_card(note.config) == ModelCard(owners=("Ada",))
    assert note.versions["tfx"].startswith("1.")
    assert note.command


def test_a_report_that_fails_is_one_line_and_no_error(runs, tmp_path):
    runs.node("run-1", "Gen", "done")
    (tmp_path / "report.html").mkdir()
    _, written = report_run(runs.store, make(Gen=()), None, tmp_path / "metadata.sqlite", since=0)
    assert written == (
        f"not written: {tmp_path}/report.html: the report cannot be written (Is a directory)"
    )
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_run_of_before_is_not_taken_for_this_one(runs, tmp_path):
    runs.node("run-1", "Gen", "done")
    began = runs.newest()[0].began
    metadata = tmp_path / "metadata.sqlite"
    _, written = report_run(
        runs.store, make(Gen=()), None, metadata, since=began + 60, error="no disk"
    )
    assert written == "not written: no node began"
    assert read_note(runs.newest()[0]).error == ""


def test_secrets_are_neither_noted_nor_shown(runs, tmp_path):
    runs.node(
        "run-1", "Gen", "done", query="select 1", login="postgres://u:hunter2@h/db",
        input_base="https://u:hunter2@h/data?sig=hunter2",
    )  # fmt: skip
    command = ["penstock", "run", "x", "--set", "source.password=hunter2", "--set", "steps=3"]
    inner = (SecretConfig(source={"token": "hunter2"}), SecretConfig(source={"table": "fares"}))
    config = SecretConfig(source={"password": "hunter2", "passwords": ["pwd=hunter2"], "in": inner})
    note = take_note(command, config, make(Gen=()))
    assert note.command == "penstock run x --set 'source.password=***' --set steps=3"
    assert note.config == {
        "source": {
            "password": "***",
            "passwords": ["***"],
            "in": [{"source": {"token": "***"}}, {"source": {"table": "fares"}}],
        }
    }
    report_run(runs.store, make(Gen=()), config, tmp_path / "metadata.sqlite", since=0)
    page = (tmp_path / "report.html").read_text()
    assert "hunter2" not in page
    assert '<td class="text mono">https://***@h/data</td>' in page


def test_words_about_other_data_are_no_words_of_this_run():
    card = {"summary": "Which digit?", "of_data": "digits"}
    assert read_model_card({"data": "cars", "model_card": card}) == ModelCard()
    assert read_model_card({"data": "digits", "model_card": card}).summary == "Which digit?"
