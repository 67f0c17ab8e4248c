import random

import numpy as np
import pyarrow as pa
import pytest

from penstock.components.tfrecord.decoder import decode_columns
from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.example_proto import SequenceExample
from penstock.components.tfrecord.feature_kind import ARROW_TYPES, FeatureKind

KINDS = {
    "text": FeatureKind.BYTES,
    "größe": FeatureKind.FLOAT,
    "größer": FeatureKind.FLOAT,
    "id": FeatureKind.INT,
    "id of another": FeatureKind.INT,
    "a" * 150: FeatureKind.INT,
}
INTS = [0, 1, 127, 128, -1, 2**63 - 1, -(2**63), 300]
# Around these lengths of text, the encoded lengths in the headers grow from one byte to two, and
# from two bytes to three.
TEXTS = [b"", b"x", *(bytes([10]) * n for n in (98, 118, 120, 125, 127, 128, 16_250, 16_400))]


def rows_of(count, *, missing, longest=None):
    chance = random.Random(count)
    makers = {
        "text": lambda: chance.choice([text for text in TEXTS if len(text) < (longest or 1e9)]),
        "größe": lambda: float(np.float32(chance.random())),
        "größer": lambda: float(np.float32(chance.random())),
        "id": lambda: chance.choice(INTS),
        "id of another": lambda: chance.choice(INTS),
        "a" * 150: lambda: chance.choice(INTS),
    }
    return [
        {n: None if chance.random() < missing else make() for n, make in makers.items()}
        for _ in range(count)
    ]


TYPES = {name: ARROW_TYPES[kind] for name, kind in KINDS.items()}


def encoded(rows, types=TYPES):
    arrays = [pa.array([row[name] for row in rows], kind) for name, kind in types.items()]
    return encode_examples(pa.RecordBatch.from_arrays(arrays, list(types))).to_pylist()


def values_of(rows, name):
    return [row[name] for row in rows]


@pytest.mark.parametrize("missing", [0, 0.3, 1])
@pytest.mark.parametrize("longest", [10, None])
def test_columns_of_encoded_examples_are_their_values(missing, longest):
    rows = rows_of(300, missing=missing, longest=longest)
    columns = decode_columns(encoded(rows), KINDS, KINDS)
    for name, kind in TYPES.items():
        assert columns[name].type == kind
        assert columns[name].to_pylist() == values_of(rows, name)
    [(name, column)] = decode_columns(encoded(rows), KINDS, {"id"}).items()
    assert (name, column.to_pylist()) == ("id", values_of(rows, "id"))


def test_other_layouts_and_damage_are_left_to_a_general_parser():
    [row] = rows_of(1, missing=0)
    payload = encoded([row])[0]
    message = SequenceExample.FromString(payload)
    del message.context.feature["id"]
    message.context.feature["id"].float_list.value.append(1)
    several = SequenceExample.FromString(payload)
    several.context.feature["id"].int64_list.value.append(1)
    others = [
        message.SerializeToString(),  # a feature of another kind
        several.SerializeToString(),
        SequenceExample().SerializeToString(),
        payload + b"\x12\x00",  # with feature lists
        payload[:-1],
        b"",
        b"no Example",
    ]
    chance = random.Random(1)
    for other in others:
        assert decode_columns([payload, other], KINDS, KINDS) is None
    for _ in range(2000):  # one byte changed: the result is protobuf's, or None
        changed = bytearray(payload)
        changed[chance.randrange(len(changed))] = chance.randrange(256)
        if (columns := decode_columns([bytes(changed)], KINDS, KINDS)) is not None:
            one = {name: column[0].as_py() for name, column in columns.items()}
            assert _as_protobuf_finds(bytes(changed)) == one


def _as_protobuf_finds(payload):
    features = SequenceExample.FromString(payload).context.feature
    lists = {FeatureKind.INT: "int64_list", FeatureKind.FLOAT: "float_list"}
    found = {}
    for name, kind in KINDS.items():
        values = getattr(features[name], lists.get(kind, "bytes_list")).value
        found[name] = values[0] if values else None
    return found
