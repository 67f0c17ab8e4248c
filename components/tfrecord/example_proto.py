"""`tf.train` protos without TensorFlow: bytes in, a message out.

The message classes come from a descriptor built here, in a pool of its own, so they live
beside TensorFlow's in one process. That takes 20 ms where importing TensorFlow takes 3 s,
and the parsing is protobuf's own C++ (3.20: 8 us for an Example of 18 features of 500
bytes) or upb (6.33: 2 us). A reader of the wire format in Python was measured at 10 us
and would be one more thing to be wrong.

One class serves both: an Example is a SequenceExample without feature lists on the wire.

    Example         = features: Features = 1
    SequenceExample = context:  Features = 1, feature_lists: FeatureLists = 2
"""

import warnings
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError, Message

# tensorflow/core/example/{example,feature}.proto, as protoc describes them.
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

_CONTEXT_TAG = 0x0A  # field 1, length delimited
_LISTS_TAG = 0x12  # field 2, length delimited


def parse_example(payload: bytes) -> Message | None:
    """The payload as a `SequenceExample`, or None where it is no Example of either kind.

    An Example's features are in `context`. Protobuf takes much for a message of any type,
    keeping what it does not know; a payload of more than empty submessages and without
    one feature is therefore none.
    """
    try:
        if _is_filled(payload):
            message = SequenceExample.FromString(payload)
        else:
            # At an end-of-group tag on the outermost layer protobuf 3.20 stops, warns and returns
            # what it has. To listen costs 5 us.
            with warnings.catch_warnings(record=True) as stopped:
                warnings.simplefilter("always")
                message = SequenceExample.FromString(payload)
            if stopped:
                return None
    except DecodeError:
        return None
    # Two empty submessages with their tags and lengths take 4 bytes.
    known = message.context.feature or message.feature_lists.feature_list or len(payload) <= 4
    return message if known else None


def is_example(payload: bytes) -> bool:
    """Whether a payload is an Example or a SequenceExample, by its outermost layer.

    Quick (0.3 us), for every record of a file: the one or two submessages at the top must
    fill the payload to its last byte. What is laid out in an unusual way, which protobuf
    permits, is parsed instead.
    """
    return (len(payload) > 4 and _is_filled(payload)) or parse_example(payload) is not None


def is_plain_example(payload: bytes) -> bool:
    """Whether a payload is one submessage of features, as writers lay out an Example (0.2 us).

    False says nothing: ask `is_example` and `has_sequences`.
    """
    return len(payload) > 4 and _submessage_end(payload, 0, _CONTEXT_TAG) == len(payload)


def has_sequences(payload: bytes) -> bool:
    """Whether a payload has feature lists, by its outermost layer: no Example has any.

    Quick (0.3 us), for every record of a file.
    """
    if _is_filled(payload):
        lists = payload[_submessage_end(payload, 0, _CONTEXT_TAG) :]
        return len(lists) > 2  # an empty submessage takes two bytes
    message: Any = parse_example(payload)
    return message is not None and len(message.feature_lists.feature_list) > 0


def _is_filled(payload: bytes) -> bool:
    """Whether the context, the feature lists or both of them make up the whole payload."""
    end = _submessage_end(payload, 0, _CONTEXT_TAG)
    return end == len(payload) or _submessage_end(payload, end, _LISTS_TAG) == len(payload)


def _submessage_end(payload: bytes, start: int, tag: int) -> int:
    """Where the submessage at `start` ends, or 0 where there is none with that tag."""
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


def _build() -> Any:
    text = _PROTO
    for short, meant in _SHORT.items():
        text = text.replace(short, meant)
    file = text_format.Parse(text, descriptor_pb2.FileDescriptorProto())
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    descriptor = pool.FindMessageTypeByName("penstock.tfrecord.SequenceExample")
    if hasattr(message_factory, "GetMessageClass"):  # protobuf >= 4.22
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


SequenceExample = _build()
