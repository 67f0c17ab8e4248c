"""`penstock validate`: is an Examples folder fit to train on?"""

from pathlib import Path
from typing import Annotated

import typer


def command(
    examples: Annotated[
        Path, typer.Argument(help="An Examples folder, of penstock ingest or any ExampleGen.")
    ],
    schema: Annotated[
        Path | None, typer.Option(help="schema.pbtxt to hold it against; else one is inferred.")
    ] = None,
    label: Annotated[
        str, typer.Option(help="Feature that must be in every row and have two values or more.")
    ] = "",
    max_quarantined_share: Annotated[
        float,
        typer.Option(
            min=0, max=1, metavar="SHARE", help="Most rows that may have been quarantined, 0 to 1."
        ),
    ] = 0.01,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to make: statistics, anomalies, schema.pbtxt, report.html."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that work at the same time.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check data before it is trained on: every byte, the statistics, the schema, the label.

    Exit 1 lists all that is wrong: anomalies, splits without rows, a label that is missing or
    has one value, values that are not numbers, too many rows quarantined.

    Example: penstock validate shards --schema schema.pbtxt --label tips --out checked
    """
    from penstock.components.gates.checks import GateOptions
    from penstock.pipelines.cli.work.validate import run_validate

    run_validate(
        examples,
        GateOptions(label=label, max_quarantined_share=max_quarantined_share),
        schema_file=schema,
        out=out,
        workers=workers,
        as_json=as_json,
    )
