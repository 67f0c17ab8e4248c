"""The trips' preprocessing, analysed and applied by TensorFlow Transform in this process."""

import tempfile

import pytest
import tensorflow as tf
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.tf_metadata import dataset_metadata, schema_utils

from penstock.pipelines.taxi import features
from penstock.pipelines.taxi.preprocessing import preprocessing_fn
from penstock.recipes import preprocessing

SPEC = {
    **dict.fromkeys((*features.NUMERIC, *features.BUCKETED), tf.io.VarLenFeature(tf.float32)),
    **dict.fromkeys((features.TARGET.name, "fare"), tf.io.VarLenFeature(tf.float32)),
    **dict.fromkeys(features.COUNTED, tf.io.VarLenFeature(tf.int64)),
    **dict.fromkeys(features.VOCABULARY, tf.io.VarLenFeature(tf.string)),
    "trip_seconds": tf.io.VarLenFeature(tf.int64),
}


def trip(**values):
    row = {"fare": 10.0, "tips": 3.0, "trip_miles": 1.0, "trip_seconds": 60, "company": b"a"}
    row = {name: [value] for name, value in {**row, **values}.items() if value is not None}
    return {name: row.get(name, []) for name in SPEC}


@pytest.mark.slow
def test_missing_number_is_the_mean_with_a_flag():
    metadata = dataset_metadata.DatasetMetadata(schema_utils.schema_from_feature_spec(SPEC))
    trips = [trip(trip_miles=1.0), trip(trip_miles=3.0), trip(trip_miles=None, trip_seconds=None)]
    with tft_beam.Context(temp_dir=tempfile.mkdtemp()):
        (rows, _), _ = (trips, metadata) | tft_beam.AnalyzeAndTransformDataset(preprocessing_fn)
    numbers = [
        [round(float(number), 4) for number in row[preprocessing.NUMBERS_XF]] for row in rows
    ]
    assert numbers == [
        [-1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 1.0, 0.0, 1.0],
    ]
