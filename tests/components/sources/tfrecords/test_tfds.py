import numpy as np
import pytest
import tensorflow_datasets as tfds
from reading import rows_of

from penstock.components.errors import DataError, UsageError
from penstock.components.sources.base import Column
from penstock.components.sources.open import open_source
from penstock.components.sources.tfrecords.tfds import Tfds
from penstock.components.tfrecord.feature_kind import FeatureKind

INT, FLOAT, BYTES = FeatureKind.INT, FeatureKind.FLOAT, FeatureKind.BYTES


def rows(count):
    for i in range(count):
        image = np.full((8, 8, 3), i, np.uint8)
        yield i, {"image": image, "label": i % 2, "box": {"x": i / 2}, "tags": list(range(i % 3))}


@pytest.fixture(scope="module")
def builder(tmp_path_factory):
    """The folder of a small data set that TFDS prepared."""
    folder = tmp_path_factory.mktemp("tfds")
    features = tfds.features.FeaturesDict(
        {
            "image": tfds.features.Image(shape=(8, 8, 3)),
            "label": tfds.features.ClassLabel(names=["cat", "dog"]),
            "box": {"x": np.float32},
            "tags": tfds.features.Sequence(np.int64),
        }
    )
    tfds.dataset_builders.store_as_tfds_dataset(
        name="tiny", version="1.0.0", features=features, data_dir=str(folder),
        split_datasets={"train": list(rows(20)), "test": list(rows(5))},
    )  # fmt: skip
    return folder / "tiny" / "1.0.0"


def test_a_split_by_name(builder):
    source = open_source(str(builder), Tfds(dataset_splits=("train",)))
    assert (source.kind, source.rows) == ("tfds", 20)
    assert source.columns == (
        Column("box/x", FLOAT), Column("image", BYTES), Column("label", INT),
        Column("tags", INT, is_list=True),
    )  # fmt: skip
    found = rows_of(source, 3)
    assert sorted(row["box/x"] for row in found) == [i / 2 for i in range(20)]
    assert all(row["image"].startswith(b"\x89PNG") for row in found)


def test_a_split_by_pattern(builder):
    source = open_source(str(builder / "*-test.tfrecord*"), Tfds(keep_features=("label",)))
    assert sorted(row["label"] for row in rows_of(source, 3)) == [0, 0, 0, 1, 1]


def test_splits_do_not_mix_unasked(builder):
    with pytest.raises(UsageError, match=r"choose `dataset_splits` of train \(20\), test \(5\)"):
        open_source(str(builder), Tfds())
    with pytest.raises(UsageError, match="has no split 'dev'; it has train"):
        open_source(str(builder), Tfds(dataset_splits=("dev",)))


def test_records_are_counted_against_the_builders_own(builder, tmp_path):
    copy = tmp_path / "1.0.0"
    copy.mkdir()
    for file in builder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    train = copy / "tiny-train.tfrecord-00000-of-00001"
    train.write_bytes((copy / "tiny-test.tfrecord-00000-of-00001").read_bytes())
    with pytest.raises(DataError, match=r"has 5 records, dataset_info.json says 20; prepare the"):
        open_source(str(copy), Tfds(dataset_splits=("train",)))


def test_what_is_no_builder(tmp_path):
    with pytest.raises(DataError, match="not the folder of a prepared builder"):
        open_source(str(tmp_path), Tfds())


class HomeMade(tfds.core.GeneratorBasedBuilder):
    """A builder that TFDS registers as `home_made` and prepares without a download."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = tfds.features.FeaturesDict({"x": np.int64})
        return self.dataset_info_from_configs(features=features)

    def _split_generators(self, manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for at in range(7):
            yield at, {"x": at}


@pytest.mark.slow
def test_a_data_set_by_name_is_prepared_on_request(tmp_path):
    options = Tfds(data_dir=str(tmp_path))
    with pytest.raises(DataError, match=r"home_made: is not prepared in .*; set `prepare`"):
        open_source("home_made", options)
    for prepare in (True, False):
        source = open_source("home_made", Tfds(data_dir=str(tmp_path), prepare=prepare))
        assert sorted(row["x"] for row in rows_of(source, 3)) == list(range(7))
    with pytest.raises(DataError, match="nowhere: no file or folder, and no data set that TFDS"):
        open_source("nowhere", options)
