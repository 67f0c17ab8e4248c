"""The versions of uv.lock fit TFX's libraries."""

import re
from pathlib import Path

import apache_beam as beam
import pytest
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.tf_metadata import dataset_metadata, schema_utils

LOCK = Path(__file__).parents[1] / "uv.lock"


def test_lock_holds_beam_for_python_3_10_where_tft_fits():
    # TFT 1.16 copies transforms with a private constructor of Beam, which changed in Beam 2.63.
    found = re.search(
        r'name = "apache-beam"\nversion = "(.+)"\n.+\nresolution-markers = \[\n +"[^"]+ < .3\.11.',
        LOCK.read_text(),
    )
    assert found is not None
    assert tuple(map(int, found[1].split("."))) <= (2, 62, 0)


@pytest.mark.slow
def test_analyzer_of_an_analyzers_result_runs_in_tfts_pipeline(tmp_path):
    def two_phases(inputs):
        return {"z": tft.scale_to_z_score(tft.scale_to_0_1(inputs["x"]))}

    spec = {"x": tf.io.FixedLenFeature([], tf.float32)}
    metadata = dataset_metadata.DatasetMetadata(schema_utils.schema_from_feature_spec(spec))
    rows = [{"x": x} for x in (1.0, 2.0, 3.0)]
    with beam.Pipeline(runner="DirectRunner") as pipeline, tft_beam.Context(str(tmp_path)):
        given = pipeline | beam.Create(rows)
        graph = (given, metadata) | tft_beam.AnalyzeDataset(two_phases)
        graph | tft_beam.WriteTransformFn(str(tmp_path / "graph"))
    layer = tft.TFTransformOutput(str(tmp_path / "graph")).transform_features_layer()
    scaled = layer({"x": tf.constant([1.0, 2.0, 3.0])})["z"].numpy().tolist()
    assert scaled == pytest.approx([-1.224745, 0.0, 1.224745], abs=1e-5)
