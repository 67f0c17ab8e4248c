"""Parses TFMD schemas, and determines which features are in use."""

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from penstock.components.errors import DataError

# Features in these lifecycle stages are not in use; TFDV and TFX's own readers skip them, too.
_UNUSED_STAGES = frozenset(
    {
        schema_pb2.PLANNED,
        schema_pb2.ALPHA,
        schema_pb2.DEPRECATED,
        schema_pb2.DEBUG_ONLY,
        schema_pb2.DISABLED,
    }
)


def parse_schema(text: str, path: str) -> schema_pb2.Schema:
    try:
        return text_format.Parse(text, schema_pb2.Schema())
    except text_format.ParseError as error:
        raise DataError(f"{path}: not a TFMD schema.pbtxt ({error})") from error


def is_used(feature: schema_pb2.Feature) -> bool:
    """Returns whether data should have a feature, given its deprecation and lifecycle stage."""
    return not feature.deprecated and feature.lifecycle_stage not in _UNUSED_STAGES
