"""`penstock bench`: what reading and training from TFRecords gains on this machine."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.components.errors import UsageError
from penstock.pipelines.cli.option_flags import given, with_flags

app = typer.Typer(no_args_is_help=True)
_ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


@dataclass(frozen=True)
class _Question:
    """A benchmark module with `run`, and the name of its options dataclass."""

    module: str
    options: str
    help: str


QUESTIONS = {
    "images": _Question(
        "penstock.benchmarks.image_training",
        "ImageTrainingOptions",
        "A network of images trained from JPEG files by a Python generator, and from TFRecords.",
    ),
    "formats": _Question(
        "penstock.benchmarks.formats",
        "FormatsOptions",
        "Protobuf and JSON, compression, numbers of shards, and the formats of peers.",
    ),
    "gpu": _Question(
        "penstock.benchmarks.gpu",
        "GpuOptions",
        "Whether the device waits: inputs, networks, options, against a batch on the device.",
    ),
    "ingest": _Question(
        "penstock.benchmarks.ingest",
        "CsvIngestOptions",
        "CSV to TFRecord by a Python loop, by TFX's CsvExampleGen and by Penstock.",
    ),
    "ladder": _Question(
        "penstock.benchmarks.ladder",
        "LadderOptions",
        "Naive, prefetch, interleave, parallel map, whole batches, cache, packed.",
    ),
    "tabular": _Question(
        "penstock.benchmarks.tabular",
        "TabularOptions",
        "A table from CSV, TFX's stock input, row Examples and packed records; training too.",
    ),
    "verdict": _Question(
        "penstock.benchmarks.verdict",
        "VerdictOptions",
        "What a training is told of its input, held against what the remedy gains.",
    ),
}


def _add(name: str, question: _Question) -> None:
    module = importlib.import_module(question.module)  # light: TensorFlow comes in its children

    def ask(
        out: Annotated[Path, typer.Option(help="Folder of the page and the JSON.")] = Path("bench"),
        as_json: Annotated[bool, typer.Option("--json", help="Print the JSON.")] = False,
        **values: Any,
    ) -> None:
        from penstock.pipelines.cli.work.bench import ask

        ask(name, module, options_type, given(values), out, as_json=as_json)

    options_type = getattr(module, question.options)
    ask.__doc__ = f"{question.help}\n\nExample: penstock bench {name} --rounds 1"
    app.command(name)(with_flags(ask, options_type, panel="What is measured"))


def _add_absent(name: str, question: _Question) -> None:
    def ask() -> None:
        raise UsageError(
            "penstock bench comes with a checkout, not with the installed package: clone the "
            "repository, run make setup there, and ask again"
        )

    ask.__doc__ = f"{question.help}\n\nExample: penstock bench {name} --rounds 1"
    app.command(name, context_settings=_ANY_ARGUMENTS)(ask)


_is_checkout = importlib.util.find_spec("penstock.benchmarks") is not None
for _name, _question in QUESTIONS.items():
    (_add if _is_checkout else _add_absent)(_name, _question)
