"""`tf.train` protos without TensorFlow: parses bytes into messages.

The message classes come from a descriptor built here, in a separate pool, so that TensorFlow's own
descriptors can be loaded in the same process. Building it takes 20 ms (importing TensorFlow: 3 s).
Protobuf itself does the parsing. For an Example with 18 features and 500 bytes, protobuf 3.20 (C++)
takes 8 us, and protobuf 6.33 (upb) takes 2 us. A parser written in Python took 10 us.

One class serves both kinds of Example: the bytes of an Example are those of a SequenceExample
without feature lists.

    Example         = features: Features = 1
    SequenceExample = context:  Features = 1, feature_lists: FeatureLists = 2
"""

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError, Message

from penstock.components.tfrecord.feature_kind import FeatureKind

# tensorflow/core/example/{example,feature}.proto, in the text form of a FileDescriptorProto.
_PROTO = """
name: "penstock/tfrecord/example.proto" package: "penstock.tfrecord" syntax: "proto3"
message_type { name: "BytesList"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
message_type { name: "FloatList"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT } }
message_type { name: "Int64List"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 } }
message_type { name: "Feature" oneof_decl { name: "kind" }
  field { name: "bytes_list" number: 1 oneof_index: 0 ONE type_name: "@BytesList" }
  field { name: "float_list" number: 2 oneof_index: 0 ONE type_name: "@FloatList" }
  field { name: "int64_list" number: 3 oneof_index: 0 ONE type_name: "@Int64List" } }
message_type { name: "Features"
  field { name: "feature" number: 1 MANY type_name: "@Features.FeatureEntry" }
  nested_type { name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 ONE type_name: "@Feature" } } }
message_type { name: "FeatureList"
  field { name: "feature" number: 1 MANY type_name: "@Feature" } }
message_type { name: "FeatureLists"
  field { name: "feature_list" number: 1 MANY type_name: "@FeatureLists.FeatureListEntry" }
  nested_type { name: "FeatureListEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 ONE type_name: "@FeatureList" } } }
message_type { name: "SequenceExample"
  field { name: "context" number: 1 ONE type_name: "@Features" }
  field { name: "feature_lists" number: 2 ONE type_name: "@FeatureLists" } }
"""
_SHORT = {
    "ONE": "label: LABEL_OPTIONAL type: TYPE_MESSAGE",
    "MANY": "label: LABEL_REPEATED type: TYPE_MESSAGE",
    "@": ".penstock.tfrecord.",
}

KIND_OF_LIST = {
    "int64_list": FeatureKind.INT,
    "float_list": FeatureKind.FLOAT,
    "bytes_list": FeatureKind.BYTES,
}
_CONTEXT_TAG = 0x0A  # field 1, length delimited
_LISTS_TAG = 0x12  # field 2, length delimited


def parse_example(payload: bytes) -> Message | None:
    """Parses a payload as a `SequenceExample`; returns None if it is neither kind of Example.

    The features of an Example are in `context`. Protobuf accepts many byte strings as a message of
    any type and keeps unknown fields, so the result is None for a payload of more than 4 bytes
    without features or feature lists.
    """
    try:
        if _is_filled(payload):
            message = SequenceExample.FromString(payload)
        else:
            # At an end-of-group tag at the top level, protobuf 3.20 stops with a warning and
            # returns the part before it. Catching the warning costs 5 us.
            with warnings.catch_warnings(record=True) as stopped:
                warnings.simplefilter("always")
                message = SequenceExample.FromString(payload)
            if stopped:
                return None
    except DecodeError:
        return None
    # A payload of at most 4 bytes may be two empty submessages with their tags and lengths; it is
    # valid without features.
    known = message.context.feature or message.feature_lists.feature_list or len(payload) <= 4
    return message if known else None


def values_of(features: Any, name: str) -> list[Any]:
    """Returns the values of the named feature in a row's `features`; empty if the row lacks it."""
    kind = features[name].WhichOneof("kind") if name in features else None
    return list(getattr(features[name], kind).value) if kind else []


def step_kinds(message: Any) -> Iterator[tuple[str, list[FeatureKind]]]:
    """Yields, for each feature list, the kinds of the steps that have values."""
    for name, steps in message.feature_lists.feature_list.items():
        kinds = (step.WhichOneof("kind") for step in steps.feature)
        yield name, [KIND_OF_LIST[kind] for kind in kinds if kind is not None]


def is_example(payload: bytes) -> bool:
    """Returns whether a payload is an Example or a SequenceExample, from its outermost layer.

    This takes 0.3 us, because only tags and lengths are compared: the one or two submessages at the
    top level must fill the payload exactly. Protobuf also permits other layouts; a payload that has
    one is parsed, which takes longer.
    """
    return (len(payload) > 4 and _is_filled(payload)) or parse_example(payload) is not None


def unusual_examples(payloads: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yields index and payload of the records that are not exactly one `features` field.

    An Example usually consists of this field; `is_example` and `has_sequences` find out what the
    other records are.
    """
    for at, payload in enumerate(payloads):
        if len(payload) <= 4 or _submessage_end(payload, 0, _CONTEXT_TAG) != len(payload):
            yield at, payload


def has_sequences(payload: bytes) -> bool:
    """Returns whether a payload has feature lists, as only SequenceExamples have; takes 0.3 us."""
    if _is_filled(payload):
        lists = payload[_submessage_end(payload, 0, _CONTEXT_TAG) :]
        return len(lists) > 2  # an empty submessage takes two bytes
    message: Any = parse_example(payload)
    return message is not None and len(message.feature_lists.feature_list) > 0


def _is_filled(payload: bytes) -> bool:
    """Returns whether the context, the feature lists, or both fill the whole payload."""
    end = _submessage_end(payload, 0, _CONTEXT_TAG)
    return end == len(payload) or _submessage_end(payload, end, _LISTS_TAG) == len(payload)


def _submessage_end(payload: bytes, start: int, tag: int) -> int:
    """Returns the end of the submessage at `start`, or 0 if none with that tag begins there."""
    position = start + 1
    if position >= len(payload) or payload[start] != tag:
        return 0
    length = shift = 0
    while position < len(payload):
        byte = payload[position]
        length |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return position + length
        shift += 7
    return 0


def _sequence_example() -> Any:
    text = _PROTO
    for short, meant in _SHORT.items():
        text = text.replace(short, meant)
    file = text_format.Parse(text, descriptor_pb2.FileDescriptorProto())
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    descriptor = pool.FindMessageTypeByName("penstock.tfrecord.SequenceExample")
    if hasattr(message_factory, "GetMessageClass"):  # from protobuf 4.22 on
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


SequenceExample = _sequence_example()
