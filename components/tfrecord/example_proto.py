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

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

_PACKAGE = "penstock.tfrecord"
_Field = descriptor_pb2.FieldDescriptorProto

# From tensorflow/core/example/{example,feature}.proto: message, then name, number and type
# of each field; "*" is repeated, "map<T>" is map<string, T>.
_MESSAGES: dict[str, list[tuple[str, int, str]]] = {
    "BytesList": [("value", 1, "bytes*")],
    "FloatList": [("value", 1, "float*")],
    "Int64List": [("value", 1, "int64*")],
    "Feature": [
        ("bytes_list", 1, "BytesList"),
        ("float_list", 2, "FloatList"),
        ("int64_list", 3, "Int64List"),
    ],
    "Features": [("feature", 1, "map<Feature>")],
    "FeatureList": [("feature", 1, "Feature*")],
    "FeatureLists": [("feature_list", 1, "map<FeatureList>")],
    "SequenceExample": [("context", 1, "Features"), ("feature_lists", 2, "FeatureLists")],
}
_SCALARS = {"bytes": _Field.TYPE_BYTES, "float": _Field.TYPE_FLOAT, "int64": _Field.TYPE_INT64}

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
    file = descriptor_pb2.FileDescriptorProto(
        name="penstock/tfrecord/example.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        if name == "Feature":
            message.oneof_decl.add(name="kind")
        for field_name, number, type_name in fields:
            _add_field(message, field_name, number, type_name)
            if name == "Feature":
                message.field[-1].oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    descriptor = pool.FindMessageTypeByName(f"{_PACKAGE}.SequenceExample")
    if hasattr(message_factory, "GetMessageClass"):  # protobuf >= 4.22
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


def _add_field(message: Any, name: str, number: int, type_name: str) -> None:
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if type_name.startswith("map<"):
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_STRING)
        _add_field(entry, "value", 2, type_name[len("map<") : -1])
        type_name = f"{message.name}.{entry.name}*"
    if type_name.endswith("*"):
        field.label = _Field.LABEL_REPEATED
        type_name = type_name[:-1]
    if type_name in _SCALARS:
        field.type = _SCALARS[type_name]
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{type_name}"


SequenceExample = _build()
