"""The three kinds of value that a `tf.train.Feature` holds."""

import enum


class FeatureKind(enum.Enum):
    """A kind; its name is that in a TFMD schema."""

    INT = "INT"
    FLOAT = "FLOAT"
    BYTES = "BYTES"
