import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from row_files import example, write_shards
from tensorflow_transform.tf_metadata import schema_utils

from penstock.components.batches.analysis import analyze
from penstock.components.batches.shards import shard_tasks
from penstock.pipelines.blocks.preprocessing import (
    boolean_numbers,
    category_ids,
    category_sizes,
    date_parts,
    dense_column,
    scaled_numbers,
    table_inputs,
    target_labels,
    word_counts,
)
from penstock.pipelines.blocks.target import Target

SPEC = {
    "age": tf.io.VarLenFeature(tf.int64),
    "fee": tf.io.FixedLenFeature([1], tf.float32),
    "news": tf.io.VarLenFeature(tf.string),
    "since": tf.io.VarLenFeature(tf.string),
    "seen": tf.io.VarLenFeature(tf.int64),
    "プラン / %": tf.io.VarLenFeature(tf.string),
    "left": tf.io.VarLenFeature(tf.string),
}
NOON = 20_700_500_000 * 86_400  # microseconds since 1970
MINUTE = 60_000_000
ROWS = [
    {"age": [20], "fee": [1.0], "news": ["Yes"], "since": ["2024-02-29"], "seen": [NOON],
     "プラン / %": ["a"], "left": ["no"]},
    {"age": [40], "fee": [3.0], "news": ["false"], "since": ["1969-12-31T12:00"],
     "seen": [NOON + MINUTE], "プラン / %": ["a"], "left": ["yes"]},
    {"age": [], "fee": [2.0], "news": [], "since": ["yesterday"], "seen": [],
     "プラン / %": ["b"], "left": ["no"]},
    {"age": [30], "fee": [2.0], "news": ["perhaps"], "since": [], "seen": [NOON + 2 * MINUTE],
     "プラン / %": [], "left": ["no"]},
]  # fmt: skip


def preprocess(inputs):
    return {
        "numbers": scaled_numbers(inputs, ["age", "fee"]),
        "booleans": boolean_numbers(inputs, ["news"]),
        "dates": date_parts(inputs, {"since": "ymd", "seen": "microseconds"}),
        "categories": category_ids(inputs, {"プラン / %": 1, "news": 5}),
        **target_labels(inputs, [Target("left", "binary", classes=("no", "yes"))]),
        **table_inputs(
            numbers=[scaled_numbers(inputs, ["fee"]), boolean_numbers(inputs, [])],
            categories=category_ids(inputs, {}),
        ),
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Output columns of `preprocess` by name; each is a list of rows."""
    folder = tmp_path_factory.mktemp("graph")
    records = [
        example(**{
            name: [one.encode() if isinstance(one, str) else one for one in values]
            for name, values in row.items()
            if values
        })
        for row in ROWS
    ]  # fmt: skip
    tasks = shard_tasks(str(write_shards(folder / "rows", records, shards=1)), "train")
    schema = schema_utils.schema_from_feature_spec(SPEC)
    analyze(preprocess, schema, str(folder / "graph"), lambda work: map(work, tasks))
    layer = tft.TFTransformOutput(str(folder / "graph")).transform_features_layer()
    found = layer(tf.io.parse_example(tf.constant(records), SPEC))
    return {name: column.numpy().tolist() for name, column in found.items()}


def test_scaled_numbers_missing_value_is_the_mean_with_a_flag(made):
    assert made["numbers"] == [
        pytest.approx(row)
        for row in (
            [-(1.5**0.5), -(2**0.5), 0, 0],
            [1.5**0.5, 2**0.5, 0, 0],
            [0, 0, 1, 0],
            [0, 0, 0, 0],
        )
    ]


def test_boolean_numbers_reads_usual_words(made):
    assert made["booleans"] == [[1, 0], [0, 0], [0.5, 1], [0.5, 1]]


def test_date_parts_of_each_format(made):
    first, second, third, _ = made["dates"]
    # The columns come in pairs, one for each of the two dates: days, missing flags, then the sine
    # and the cosine of month, weekday and time of day.
    assert [row[2:4] for row in made["dates"]] == [[0, 0], [0, 0], [1, 1], [1, 0]]
    february, thursday = 2 * math.pi / 12, 2 * math.pi * 4 / 7
    assert first[4] == pytest.approx(math.sin(february), abs=1e-6)
    assert first[8] == pytest.approx(math.sin(thursday), abs=1e-6)  # 29 February 2024
    assert second[12] == pytest.approx(math.sin(math.pi), abs=1e-6)  # noon
    assert second[14] == pytest.approx(math.cos(math.pi), abs=1e-6)
    assert third[4::2] == [0] * 6


def test_dates_a_minute_apart_are_scaled_exactly(made):
    """If days were summed in float32, the scaled values would be nearly equal.

    The scaled values would also depend on the batch size.
    """
    seen = [row[1] for row in made["dates"]]
    assert seen == pytest.approx([-(1.5**0.5), 0, 0, 1.5**0.5], abs=1e-6)


def test_category_ids_of_missing_and_rare_values(made):
    assert [row[0] for row in made["categories"]] == [2, 2, 1, 0]
    assert category_sizes({"プラン / %": 1, "news": 5}) == [3, 7]


def test_target_labels_are_class_numbers(made):
    assert made["left_xf"] == [[0], [1], [0], [0]]


def test_table_inputs_without_columns_are_left_out(made):
    assert "categories_xf" not in made
    assert len(made["numbers_xf"][0]) == 2


@pytest.mark.parametrize(
    ("text", "format_", "days"),
    [
        ("1970-01-01", "ymd", 0),
        ("2000/03/01 06:00:00Z", "ymd", 11017.25),
        ("31.12.1999", "dmy", 10956),
        ("2/28/2100", "mdy", 47540),
        ("2024-13-01", "ymd", math.nan),
        ("2024-02-29", "ymd", 19782),
        ("2024-02-31", "ymd", math.nan),
        ("29.2.1900", "dmy", math.nan),
        ("0001-04-31", "ymd", math.nan),
        ("", "dmy", math.nan),
    ],
)
def test_days_from_civil_match_python_dates(text, format_, days):
    from penstock.pipelines.blocks.preprocessing import _days

    found = _days(tf.constant([[text]]), format_).numpy()[0, 0]
    assert found == pytest.approx(days, nan_ok=True)


def test_dense_column_of_an_empty_list():
    column = tf.SparseTensor(tf.zeros([0, 2], tf.int64), tf.constant([], tf.string), [3, 0])
    assert dense_column(column).numpy().tolist() == [[b""], [b""], [b""]]


def test_words_and_pairs_of_words_are_hashed_counts():
    texts = tf.constant(["Red car, red CAR!", "", "red"])
    counts = word_counts({"note": texts}, {"note": 64})
    assert counts.shape == (3, 64)
    # The first text's counts are red 2, car 2, "red car" 2 and "car red" 1; `word_counts` returns
    # log(1 + count).
    assert np.expm1(counts.numpy()).sum(axis=1).round(4).tolist() == [7, 0, 1]
    assert counts[2].numpy()[counts[0].numpy() == 0].sum() == 0
