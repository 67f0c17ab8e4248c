"""A working directory with what the README's commands name, made by the tools that users have."""

import shutil
import sqlite3
from pathlib import Path

import fastavro
import numpy as np
import pandas as pd
import scipy.io
import tensorflow_datasets as tfds
from PIL import Image

ROWS = 200


def make(folder: Path, taxi_csv: Path) -> None:
    """Fill the folder."""
    shutil.copy(taxi_csv, folder / "trips.csv")
    (folder / "trips").mkdir()
    shutil.copy(taxi_csv, folder / "trips")
    rows = pd.DataFrame({"id": range(ROWS), "fare": [i / 2 for i in range(ROWS)],
                         "company": [f"company {i % 7}" for i in range(ROWS)]})  # fmt: skip
    rows.to_parquet(folder / "trips.parquet")
    rows.to_json(folder / "trips.jsonl", orient="records", lines=True)
    _avro(folder / "trips.avro", rows)
    _customers(folder / "customers.csv")
    with sqlite3.connect(folder / "trips.db") as database:
        database.execute("CREATE TABLE trips (id INTEGER PRIMARY KEY, fare REAL, company TEXT)")
        database.executemany("INSERT INTO trips VALUES (?, ?, ?)", rows.itertuples(index=False))
    _images(folder)
    spark = folder / "spark-trips"
    spark.mkdir()
    shutil.copy(folder / "trips.parquet", spark / "part-00000.snappy.parquet")
    (spark / "_SUCCESS").touch()
    _tfds(folder)
    (folder / "notes.txt").write_text("first note\nsecond note\n")
    (folder / "scans").mkdir()
    for i in range(3):
        (folder / "scans" / f"{i}.bin").write_bytes(bytes(range(64 + i)))


def _customers(path: Path) -> None:
    """1,500 customers; who has few months and a basic plan churns more often."""
    rng = np.random.default_rng(0)
    months, pro = rng.integers(1, 60, 1500), rng.random(1500) < 0.4
    churned = rng.random(1500) < 0.9 / (1 + np.exp(months / 8 - 2 + pro))
    pd.DataFrame({"months": months, "plan": np.where(pro, "pro", "basic"),
                  "spent": (months * rng.uniform(5, 20, 1500)).round(2),
                  "churned": np.where(churned, "yes", "no")}).to_csv(path, index=False)  # fmt: skip


def _avro(path: Path, rows: pd.DataFrame) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "fare", "type": "double"},
              {"name": "company", "type": "string"}]  # fmt: skip
    with path.open("wb") as file:
        schema = {"type": "record", "name": "Trip", "fields": fields}
        fastavro.writer(file, schema, rows.to_dict("records"))


def _images(folder: Path) -> None:
    """`photos`, a folder a class, and `cars` with labels as Stanford Cars has them."""
    rng = np.random.default_rng(0)
    names = []
    for number in range(12):
        pixels = rng.integers(0, 255, (80, 100, 3), np.uint8)
        photo = folder / "photos" / ("cat", "dog")[number % 2] / f"{number}.jpg"
        car = folder / "cars" / f"{number:06d}.jpg"
        for path in (photo, car):
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
        names.append(car.name)
    dtype = [("fname", object), ("class", object)]
    annotations = np.array([(name, 1 + i % 3) for i, name in enumerate(names)], dtype)
    class_names = np.array(["Audi", "BMW", "Fiat"], object)
    scipy.io.savemat(folder / "cars.mat", {"annotations": annotations, "class_names": class_names})


def _tfds(folder: Path) -> None:
    features = tfds.features.FeaturesDict(
        {"image": tfds.features.Image(shape=(8, 8, 1)),
         "label": tfds.features.ClassLabel(num_classes=10)}
    )  # fmt: skip
    examples = [(i, {"image": np.full((8, 8, 1), i, np.uint8), "label": i % 10}) for i in range(20)]
    tfds.dataset_builders.store_as_tfds_dataset(
        name="mnist", version="3.0.1", features=features, data_dir=str(folder),
        split_datasets={"train": examples, "test": examples[:5]},
    )  # fmt: skip
