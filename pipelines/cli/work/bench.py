"""One question of `penstock bench`: run it, write its page and its JSON, say what came out."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.pipelines.terminal.tables import console, print_table

if TYPE_CHECKING:
    from penstock.benchmarks.outcome import Outcome


def ask(
    name: str,
    module: Any,
    options_type: type,
    values: Mapping[str, Any],
    out: Path,
    *,
    as_json: bool,
) -> None:
    """Run a benchmark's module; `NAME.html` and `NAME.json` go to the folder `out`."""
    from penstock.benchmarks.page import render

    options = options_type(**values)
    out.mkdir(parents=True, exist_ok=True)  # before minutes are spent
    outcome = module.run(options)
    page, data = out / f"{name}.html", out / f"{name}.json"
    page.write_text(render(outcome), encoding="utf-8")
    data.write_text(outcome.to_json(), encoding="utf-8")
    if as_json:
        sys.stdout.write(outcome.to_json())
        return
    _print(outcome)
    print(f"\nlook closer: {page}\n             {data}")


def _print(outcome: "Outcome") -> None:
    from penstock.benchmarks.outcome import times

    to = console()
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
    print_table(to, "\nVerdicts", ("verdict", "here", "claimed", "claim", "measured as"), verdicts)
