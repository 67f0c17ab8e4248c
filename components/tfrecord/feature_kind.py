"""The three kinds of values that a `tf.train.Feature` can have."""

import enum

import pyarrow as pa


class FeatureKind(enum.Enum):
    """A kind of values; its name is the one that a TFMD schema uses."""

    INT = "INT"
    FLOAT = "FLOAT"
    BYTES = "BYTES"


# Arrow type of the values of each kind in a batch.
ARROW_TYPES = {
    FeatureKind.INT: pa.int64(),
    FeatureKind.FLOAT: pa.float32(),
    FeatureKind.BYTES: pa.binary(),
}
# Kind of the values in a column of decoded Examples, by Arrow type.
DECODED_KINDS = {
    pa.int64(): FeatureKind.INT,
    pa.float32(): FeatureKind.FLOAT,
    pa.large_binary(): FeatureKind.BYTES,
}
