"""From a user's data to a pushed model and predictions, with the commands that users type."""

import datetime
import json
import math
import random

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from PIL import Image


class User:
    """Types commands in a folder of data."""

    def __init__(self, folder, penstock):
        self.folder, self._penstock = folder, penstock

    def first_model(self, name, *arguments):
        """Makes a package with `penstock init` and runs it; returns the summary of the run."""
        self._type(self.folder, "init", name, *arguments)
        return json.loads(self._type(self.folder / name, "run", "--json"))

    def trials_of(self, name):
        """Runs a package after making code of the comment with the search space in `model.py`."""
        model = self.folder / name / name / "model.py"
        text = model.read_text()
        begin, end = text.index("# def search_space"), text.index("def run_fn")
        space = text[begin:end].replace("# ", "", 1).replace("\n# ", "\n").replace("\n#", "\n")
        model.write_text(text[:begin] + space + text[end:])
        run = ("run", "--json", "--set", "tune.trials=2", "--set", "train.max_steps=20")
        summary = json.loads(self._type(self.folder / name, *run, "--set", "must_beat=null"))
        return summary["trials"]["rows"]

    def predictions(self, name, data):
        """Predictions for a file by the model of the package `name`."""
        out = self.folder / name / "predictions.parquet"
        self._type(out.parent, "predict", "runs", self.folder / data, "--out", out.name)
        return pq.read_table(out)

    def _type(self, folder, *command):
        done = self._penstock(*command, cwd=folder)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def user(tmp_path, penstock):
    return User(tmp_path, penstock)


def test_init_to_predictions_table_with_dates_and_nulls(user):
    chance, lines = random.Random(1), ["id,since,age,plan,news,left"]
    for number in range(600):
        day = datetime.date(2020, 1, 1) + datetime.timedelta(chance.randrange(900))
        age = chance.randrange(18, 90)
        says_yes = chance.random() < 1 / (1 + math.exp((50 - age) / 8))
        row = (f"C{number}", day, age, chance.choice("abc"), chance.choice(("true", "false")))
        cells = [str(cell) if chance.random() > 0.05 else "" for cell in row[1:]]
        lines.append(",".join([row[0], *cells, "yes" if says_yes else "no"]))
    (user.folder / "people.csv").write_text("\n".join(lines) + "\n")
    summary = user.first_model("churn", "--data", "people.csv", "--target", "left")
    assert summary["blessed"]
    assert summary["anomalies"] == []
    found = user.predictions("churn", "people.csv")
    assert found.num_rows == 600
    right = [row["prediction"] == row["left"] for row in found.to_pylist()]
    assert sum(right) / 600 > 0.75
    model = tf.saved_model.load(summary["pushed"])
    given = {"age": tf.constant([20, 85], tf.int64)}
    specs = model.signatures["serve_columns"].structured_input_signature[1]
    rest = {name: tf.constant([], spec.dtype) for name, spec in specs.items() if name != "age"}
    answer = model.signatures["serve_columns"](**given, **rest)
    assert answer["text"].numpy().tolist() == [b"no", b"yes"]


@pytest.mark.slow
def test_init_to_predictions_two_targets(user):
    chance, lines = random.Random(2), ["area,place,price,dear"]
    for _ in range(600):
        area, place = chance.uniform(20, 200), chance.choice("abc")
        price = 1000 * area + 20_000 * "abc".index(place) + chance.gauss(0, 5_000)
        lines.append(f"{area:.1f},{place},{price:.1f},{'yes' if price > 130_000 else 'no'}")
    (user.folder / "houses.csv").write_text("\n".join(lines) + "\n")
    summary = user.first_model(
        *("houses", "--data", "houses.csv", "--target", "price", "--target", "dear")
    )
    assert summary["blessed"]
    found = user.predictions("houses", "houses.csv")
    error = np.array(found["price/prediction"]) - np.array(found["price"])
    assert np.abs(error).mean() < 20_000
    assert set(found["dear/prediction"].to_pylist()) == {"yes", "no"}
    assert len(user.trials_of("houses")) == 2


@pytest.mark.slow
def test_init_to_predictions_folder_of_images(user):
    chance = np.random.default_rng(3)
    for name, colour in (("red", (200, 60, 60)), ("blue", (60, 60, 200))):
        (user.folder / "photos" / name).mkdir(parents=True)
        for number in range(40):
            pixels = np.clip(chance.normal(colour, 30, (16, 16, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(user.folder / "photos" / name / f"{number}.png")
    summary = user.first_model("colours", "--data", "photos")
    assert summary["blessed"]
    found = user.predictions("colours", "photos").to_pylist()
    right = [row["file"].startswith(row["prediction"]) for row in found]
    assert len(right) == 80
    assert sum(right) > 70
    assert len(user.trials_of("colours")) == 2
