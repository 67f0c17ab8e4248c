"""`penstock bench`: measures reading and training from TFRecords on this machine."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.pipelines.cli.option_flags import given, with_flags

if TYPE_CHECKING:
    from penstock.benchmarks.outcome import Outcome

app = typer.Typer(no_args_is_help=True)

# Command name to module in `benchmarks` and its options dataclass; the module's first line is the
# help.
QUESTIONS = {
    "images": "image_training:ImageTrainingOptions",
    "formats": "formats:FormatsOptions",
    "gpu": "gpu:GpuOptions",
    "ingest": "ingest:CsvIngestOptions",
    "ladder": "ladder:LadderOptions",
    "tabular": "tabular:TabularOptions",
    "verdict": "verdict:VerdictOptions",
}


def _add(name: str, place: str) -> None:
    # Fast to import: TensorFlow is imported in its child processes only.
    module_name, _, options_name = place.partition(":")
    module = importlib.import_module(f"penstock.benchmarks.{module_name}")
    options_type = getattr(module, options_name)

    def ask(
        out: Annotated[Path, typer.Option(help="Folder of the page and the JSON.")] = Path("bench"),
        as_json: Annotated[bool, typer.Option("--json", help="Print the JSON.")] = False,
        **values: Any,
    ) -> None:
        from penstock.benchmarks.page import render
        from penstock.components.files.commit import attempt_file, check_file

        options = options_type(**given(values))
        page, data = out / f"{name}.html", out / f"{name}.json"
        check_file(page, overwrite=True)  # checks before minutes of measuring
        outcome = module.run(options)
        for file, text in ((page, render(outcome)), (data, outcome.to_json())):
            with attempt_file(file) as new:
                new.write_text(text, encoding="utf-8")
        if as_json:
            typer.echo(outcome.to_json(), nl=False)
            return
        _print(outcome)
        typer.echo(f"\nlook closer: {page}\n             {data}")

    help_text = str(module.__doc__).partition("\n")[0]
    ask.__doc__ = f"{help_text}\n\nExample: penstock bench {name} --rounds 1"
    app.command(name)(with_flags(ask, options_type, panel="What is measured"))


def _print(outcome: "Outcome") -> None:
    from penstock.benchmarks.outcome import times
    from penstock.pipelines.terminal.tables import console, print_table

    to = console()
    for line in outcome.setting:
        typer.echo(line)
    for one in outcome.comparisons:
        base = one.contenders[0]
        rows = [
            (
                c.name,
                f"{c.per_second:,.0f}",
                f"{c.cpu_us:,.2f}",
                times(c.per_second / base.per_second),
                times(base.cpu_us / c.cpu_us),
            )
            for c in one.contenders
        ]
        headers = ("contender", f"{one.unit}/s", "CPU us", "x wall", "x CPU")
        print_table(to, f"\n{one.title}", headers, rows)
    verdicts = [
        (v.outcome, times(v.measured), times(v.claim.wanted), v.claim.text, v.how)
        for v in outcome.verdicts
    ]
    if verdicts:
        headers = ("verdict", "here", "claimed", "claim", "measured as")
        print_table(to, "\nVerdicts", headers, verdicts)


for _name, _place in QUESTIONS.items():
    _add(_name, _place)
