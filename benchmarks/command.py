"""`penstock bench`: measures reading and training from TFRecords on this machine."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.benchmarks import harness
from penstock.pipelines.cli.option_flags import given, with_flags

app = typer.Typer(no_args_is_help=True)


def _add(name: str) -> None:
    module = harness.load(name)

    def bench(
        out: Annotated[Path, typer.Option(help="Folder of the page and the JSON.")] = Path("bench"),
        as_json: Annotated[bool, typer.Option("--json", help="Print the JSON.")] = False,
        **values: Any,
    ) -> None:
        from penstock.components.files.commit import attempt_file, check_file

        options = module.Options(**given(values))
        page, data = out / f"{name}.md", out / f"{name}.json"
        check_file(page, overwrite=True)  # before minutes of measuring
        found = harness.run(name, options)
        texts = {page: harness.markdown(found), data: json.dumps(found, indent=1) + "\n"}
        for file, text in texts.items():
            with attempt_file(file) as new:
                new.write_text(text, encoding="utf-8")
        typer.echo(texts[data if as_json else page], nl=False)

    bench.__doc__ = f"{harness.title_of(module)}\n\nExample: penstock bench {name} --rounds 1"
    app.command(name)(with_flags(bench, module.Options, panel="What is measured"))


for _name in harness.BENCHMARKS:
    _add(_name)
