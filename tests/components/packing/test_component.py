import json

import pytest
from row_files import artifact
from tfx.components.util import tfxio_utils
from tfx.types import channel_utils
from tfx.types.standard_artifacts import Examples, Schema, TransformGraph

from penstock.components.errors import UsageError
from penstock.components.packing.component import Executor, Pack
from penstock.components.packing.options import PackOptions
from penstock.components.plain import from_json, to_json
from penstock.components.tfrecord.manifest import read_manifest
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.input.options import InputOptions

SCHEMA = """feature { name: "x" type: FLOAT presence { min_fraction: 1 } shape { dim { size: 2 } } }
feature { name: "y" type: INT presence { min_fraction: 1 } shape { } }"""


@pytest.fixture
def graph(tmp_path):
    folder = tmp_path / "graph" / "transformed_metadata"
    folder.mkdir(parents=True)
    (folder / "schema.pbtxt").write_text(SCHEMA)
    return artifact(TransformGraph, tmp_path / "graph")


@pytest.fixture
def packed(tmp_path, write_rows, graph):
    """The node's output artifact, made by its executor."""
    rows = write_rows([{"x": [i + 0.5, 1.0], "y": i} for i in range(9)])
    write_rows([{"x": [0.5, 1.0], "y": 1}], split="eval")
    out = artifact(Examples, tmp_path / "out")
    Executor().Do(
        {"examples": [artifact(Examples, rows)], "transform_graph": [graph]},
        {"packed": [out]},
        {"options": to_json(PackOptions(seed=4))},
    )
    return out


def test_the_schema_of_the_transform_decides_the_shapes(packed):
    manifest = read_manifest(packed.uri)
    columns = {c["name"]: (c["storage"], c["shape"]) for c in manifest.packed["columns"]}
    assert columns == {"x": ("float32", [2]), "y": ("int64", [])}
    assert manifest.packed["seed"] == 4
    assert json.loads(packed.split_names) == ["eval", "train"]
    files = [f"{packed.uri}/Split-train/*"]
    batch, y = next(iter(Input.packed(files, label="y", options=InputOptions(batch_size=9)).eval()))
    assert batch["x"].shape == (9, 2)
    assert y.shape == (9,)
    assert sorted(y.numpy()) == list(range(9))
    assert batch["x"].numpy()[:, 0].tolist() == (y.numpy() + 0.5).tolist()


def test_stock_readers_of_rows_refuse_it(packed):
    with pytest.raises(AssertionError, match="FORMAT_PROTO requires a DataView"):
        tfxio_utils.get_split_tfxio([packed], "train", ["test"])
    # A Trainer asks for a data view before it runs; None is accepted.
    assert tfxio_utils.get_data_view_decode_fn_from_artifact([packed], ["test"]) is None


def test_the_options_are_part_of_the_cache_key():
    examples = channel_utils.as_channel([Examples()])
    seeds = [Pack(examples, options=PackOptions(seed=seed)) for seed in (1, 2)]
    keys = [node.exec_properties["options"] for node in seeds]
    assert keys[0] != keys[1]
    assert from_json(PackOptions, keys[0]) == PackOptions(seed=1)


def test_one_schema_is_enough():
    channels = [channel_utils.as_channel([kind()]) for kind in (Examples, TransformGraph, Schema)]
    with pytest.raises(UsageError) as error:
        Pack(channels[0], transform_graph=channels[1], schema=channels[2])
    assert str(error.value) == "Pack takes a transform_graph or a schema, not both"
    with pytest.raises(UsageError, match="needs the transform_graph"):
        Pack(channels[0], apply_graph=True)
