import numpy as np
import pytest
from row_files import example, sequence_example, write_shards

import penstock
from penstock.components import activity


@pytest.fixture(scope="session")
def taxi_rows(tmp_path_factory, taxi_csv):
    """Folder of 3,000 taxi trips as Examples, with three shards per split and a manifest."""
    folder = tmp_path_factory.mktemp("taxi")
    with taxi_csv.open() as trips:
        (folder / "trips.csv").write_text("".join(next(trips) for _ in range(3001)))
    from penstock.components.example_gen.options import IngestOptions
    from penstock.components.tfrecord.sharding import ShardOptions

    options = IngestOptions(shards=ShardOptions(shards=3))
    penstock.ingest(str(folder / "trips.csv"), folder / "rows", options=options)
    return folder / "rows"


@pytest.fixture
def counted(monkeypatch):
    """Collects the reported counts (rows done, all rows)."""
    monkeypatch.setattr(activity, "_SECONDS_BETWEEN_COUNTS", 0.0)
    counts = []
    with activity.listening(lambda state: counts.append(state.rows)):
        yield counts


def mixed_rows(count=1200):
    """Multivalent, missing, empty, non-UTF-8, NaN, infinite, long and categorical values."""
    rng = np.random.default_rng(1)
    odd = [1.0, float("nan"), float("inf"), -float("inf")]
    # Each text has a different count, because TFDV's sketches order texts of equal counts by their
    # printed form.
    texts = [b"\xff\xfe", *[b"ok"] * 2, *["ü".encode()] * 3, *[b"x" * 1000] * 4]
    for i in range(count):
        n = int(rng.integers(0, 5))
        row = {
            "many_floats": rng.normal(size=n).tolist() or None,
            "odd": [odd[i % 4]],
            "bytes": [texts[i % 10]],
            "words": [b"w%d" % w for w in rng.zipf(1.5, n) % 400] or None,
            "category": [int(rng.integers(0, 9))],
            "weight": [float(rng.random())],
            "label": [i % 2],
            "value": [float(rng.random())],
            "index": [int(rng.integers(0, 10))],
        }
        if n < 4:
            row["many_ints"] = rng.integers(0, 50, n).tolist()
        if i % 3:
            row["sometimes"] = [float(rng.normal())]
        if i % 7 == 0:
            row["nothing"] = None
        yield example(**row)


def sequence_rows(count=600):
    """SequenceExamples with up to three steps of two texts."""
    rng = np.random.default_rng(3)
    for i in range(count):
        steps = range(int(rng.integers(0, 4)))
        tokens = [[b"t%d" % t for t in rng.integers(0, 9, 2)] for _ in steps]
        yield sequence_example({"id": [i % 5]}, token=tokens)


@pytest.fixture(scope="session")
def rows(tmp_path_factory, taxi_rows):
    """The Examples folder of each kind of rows."""
    folder = tmp_path_factory.mktemp("rows")
    return {
        "taxi": taxi_rows,
        "mixed": write_shards(folder / "mixed", mixed_rows()),
        "sequences": write_shards(folder / "sequences", sequence_rows()),
    }
