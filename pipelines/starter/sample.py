"""Small files of every common kind, in a new folder, for the commands of README and tutorials."""

import importlib.util
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import fastavro
import numpy as np
import pandas as pd
from PIL import Image

from penstock.components.errors import UsageError

_CUSTOMERS, _TRIPS, _PHOTOS = 1500, 200, 12


def write_sample(folder: Path) -> list[Path]:
    """Writes the files; returns the sorted paths of the files and folders in the folder.

    Raises:
        UsageError: The path is a file, or a folder that is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: is there already; expected a new or an empty folder")
    (folder / "trips").mkdir(parents=True)
    _write_customers(folder / "customers.csv")
    for place in (folder, folder / "trips"):
        shutil.copy(_taxi_trips(), place / "trips.csv")
    _write_kinds_of_tables(folder)
    _write_photos(folder / "photos")
    (folder / "notes.txt").write_text("first note\nsecond note\n", encoding="utf-8")
    return sorted(folder.iterdir())


def _taxi_trips() -> Path:
    """Returns the path of the 15,002 taxi trips in TFX's wheel, without importing TFX."""
    [tfx] = importlib.util.find_spec("tfx").submodule_search_locations  # type: ignore[union-attr, misc]
    return Path(tfx) / "examples/chicago_taxi_pipeline/data/simple/data.csv"


def _write_customers(path: Path) -> None:
    """Writes a table of customers; those with few months and a basic plan churn more often."""
    rng = np.random.default_rng(0)
    months, pro = rng.integers(1, 60, _CUSTOMERS), rng.random(_CUSTOMERS) < 0.4
    churned = rng.random(_CUSTOMERS) < 0.9 / (1 + np.exp(months / 8 - 2 + pro))
    pd.DataFrame(
        {
            "months": months,
            "plan": np.where(pro, "pro", "basic"),
            "spent": (months * rng.uniform(5, 20, _CUSTOMERS)).round(2),
            "churned": np.where(churned, "yes", "no"),
        }
    ).to_csv(path, index=False)


def _write_kinds_of_tables(folder: Path) -> None:
    rows = pd.DataFrame(
        {
            "id": range(_TRIPS),
            "fare": [number / 2 for number in range(_TRIPS)],
            "company": [f"company {number % 7}" for number in range(_TRIPS)],
        }
    )
    rows.to_parquet(folder / "trips.parquet")
    rows.to_json(folder / "trips.jsonl", orient="records", lines=True)
    fields = [
        {"name": name, "type": kind}
        for name, kind in (("id", "long"), ("fare", "double"), ("company", "string"))
    ]
    with (folder / "trips.avro").open("wb") as file:
        schema = {"type": "record", "name": "Trip", "fields": fields}
        fastavro.writer(file, schema, rows.to_dict("records"))
    with closing(sqlite3.connect(folder / "trips.db")) as database:
        rows.to_sql("trips", database, index=False, dtype={"id": "INTEGER PRIMARY KEY"})


def _write_photos(folder: Path) -> None:
    """Writes images of noise in two colours, with one folder per class."""
    rng = np.random.default_rng(0)
    for number in range(_PHOTOS):
        name, colour = (("cat", (200, 120, 60)), ("dog", (60, 120, 200)))[number % 2]
        (folder / name).mkdir(parents=True, exist_ok=True)
        pixels = np.clip(rng.normal(colour, 40, (80, 100, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / name / f"{number}.jpg")
