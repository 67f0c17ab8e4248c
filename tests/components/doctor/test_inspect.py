import json
import os

import numpy as np
import pytest
import tensorflow as tf
from row_files import example, sequence_example
from sklearn.datasets import load_digits

from penstock.components.doctor.inspect import inspect
from penstock.components.doctor.read_file import FileReport
from penstock.components.doctor.verify import verify
from penstock.components.errors import DataError


def by_name(report):
    return {feature.name: feature for feature in report.features}


@pytest.fixture
def digits(tfrecord):
    """A TFRecord file of 20 real handwritten digits, each with its PNG, raw pixels and label."""
    data = load_digits()
    rows = [
        example(
            png=[tf.io.encode_png(pixels.astype(np.uint8)[..., None]).numpy()],
            pixels=pixels.ravel().tolist(),
            label=[int(label)],
        )
        for pixels, label in zip(data.images[:20], data.target[:20], strict=True)
    ]
    return tfrecord("digits.gz", rows)


def test_tfxs_taxi_examples(tfx_data):
    folder = str(tfx_data / "tfrecord")
    report = inspect(folder)
    assert report.files == (
        FileReport(f"{folder}/data_tfrecord-00000-of-00002.gz", 412126, "GZIP", 9988, 9988, ()),
        FileReport(f"{folder}/data_tfrecord-00001-of-00002.gz", 208677, "GZIP", 5012, 5012, ()),
    )
    assert report.payloads == {"Example": 1000}
    assert (report.records, report.is_exact, report.faults) == (15_000, True, ())
    company = by_name(report)["company"]
    assert (company.place, company.kind, company.present) == ("features", "bytes", 666)
    assert (company.min_bytes, company.max_bytes, company.distinct) == (19, 40, 14)
    assert company.samples[0] == "'Taxi Affiliation Services'"
    hour = by_name(report)["trip_start_hour"]
    assert (hour.kind, hour.minimum, hour.maximum, hour.distinct) == ("int64", 0, 23, 24)
    miles = by_name(report)["trip_miles"]
    assert (miles.kind, miles.minimum, miles.maximum, miles.distinct) == ("float", 0.0, 161.0, None)
    assert miles.mean == pytest.approx(2.97298)
    tract = by_name(report)["pickup_census_tract"]
    assert (tract.kind, tract.present, tract.records, tract.samples) == ("", 0, 1000, ())


def test_tfxs_sequence_examples(tfx_data):
    report = inspect(str(tfx_data / "tfrecord_sequence"), max_records=None)
    assert report.payloads == {"SequenceExample": 15_000}
    places = {feature.name: feature.place for feature in report.features}
    assert places == {"f": "context", "i": "context", "s": "feature_lists"}
    steps = by_name(report)["s"]
    assert (steps.kind, steps.min_steps, steps.max_steps) == ("bytes", 2, 2)
    assert (steps.min_values, steps.max_values, steps.samples) == (1, 1, ("'0'", "'1'", "'2'"))


def test_images_are_recognised(digits):
    features = by_name(inspect(str(digits), samples=1))
    assert features["png"].contents == {"PNG 8x8": 20}
    assert features["png"].samples[0].startswith("<PNG 8x8, ")
    pixels = features["pixels"]
    assert (pixels.min_values, pixels.max_values) == (64, 64)
    assert (pixels.minimum, pixels.maximum) == (0.0, 16.0)
    assert pixels.samples == ("[0.0, 0.0, 5.0, 13.0, ... (64 values)]",)
    assert features["label"].distinct == 10


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            [[1.0, np.nan, np.inf, 3.0]],
            {"minimum": 1.0, "maximum": 3.0, "mean": 2.0, "non_finite": 2,
             "samples": ("[1.0, nan, inf, 3.0]",)},
        ),
        ([[2**63 - 1, -(2**63)]], {"minimum": -(2**63), "maximum": 2**63 - 1}),
        ([[1], [0.5], [b"a"], None], {"kind": "bytes|float|int64", "present": 3, "records": 4}),
        ([[n] for n in range(1500)], {"distinct": 1000}),
        ([[b"%d" % n] for n in range(1500)], {"distinct": 1000}),
        (
            [[b"ab\tc"], [b"ab\x0bc"], [b"\xff\x00" * 10], ["größer".encode()], [b""],
             ["東".encode() * 100]],
            {"samples": (r"'ab\tc'", "<4 bytes>", "<20 bytes>", "'größer'", "''",
                         f"'{'東' * 40}...'")},
        ),
        (
            [[0.1, -7.0, 17031839744.0, 1e30], [0.0001, 1e-05, 16777216.0]],
            {"samples": ("[0.1, -7.0, 17031840000.0, 1e+30]", "[0.0001, 1e-05, 16777216.0]")},
        ),
    ],
    ids=["not finite", "greatest", "kinds", "distinct", "distinct bytes", "texts", "digits"],
)  # fmt: skip
def test_values_of_a_feature_are_summarized(tfrecord, rows, expected):
    path = tfrecord("a", [example(x=values) for values in rows])
    (feature,) = inspect(str(path), samples=6, max_records=None).features
    assert {name: getattr(feature, name) for name in expected} == expected


def test_records_to_look_at_are_spread_over_the_files(tfrecord, row, tmp_path):
    for index in range(4):
        tfrecord(f"s/part-{index}", map(row, range(50)))
    report = inspect(str(tmp_path / "s"), max_records=10)
    assert report.records_looked_at == 12
    assert (report.records, report.is_exact) == (200, True)


def test_large_files_are_counted_in_part_and_it_says_so(tfrecord, row, monkeypatch):
    monkeypatch.setattr("penstock.components.doctor.inspect._COUNT_BYTES", 1000)
    path = str(tfrecord("a", [row(0)] * 500))
    assert inspect(path, max_records=1).files == (
        FileReport(path, 25_000, "", 500, None, (), is_exact=False),
    )
    assert inspect(path, max_records=None).files[0].records == 500


def test_other_and_empty_payloads_are_counted_and_no_fault(tfrecord):
    report = inspect(str(tfrecord("a", [b"hello world, this is no Example", b"", b"\x0a\x00"])))
    assert (report.payloads, report.features, report.faults) == ({"other": 1, "empty": 2}, (), ())


def test_a_sequence_of_varying_steps(tfrecord):
    rows = [sequence_example(s=[[1], [2, 3]]), sequence_example(s=[[4]])]
    (feature,) = inspect(str(tfrecord("a", rows))).features
    assert (feature.min_steps, feature.max_steps) == (1, 2)
    assert (feature.min_values, feature.max_values) == (1, 2)
    assert (feature.minimum, feature.maximum, feature.mean) == (1, 4, 2.5)


SHARD = "Split-train/data_tfrecord-00001-of-00002"


def test_what_differs_from_the_manifest_is_a_fault(artifact):
    assert inspect(str(artifact)).faults == ()
    (artifact / SHARD).unlink()
    faults = inspect(str(artifact)).faults
    said = "shard is missing; the manifest lists it with 10 rows"
    assert faults == verify(str(artifact)).faults == (f"{artifact}/{SHARD}: {said}",)
    assert json.loads(inspect(f"{artifact}/Split-train/*").to_json())["faults"] == [*faults]


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="/pipe: not a regular file;"):
        inspect(str(tmp_path / "pipe"))
    report = inspect(str(tmp_path))
    assert "/pipe: not a regular file; a pipe or a device is not read" in report.faults[0]
    assert not report.is_exact
