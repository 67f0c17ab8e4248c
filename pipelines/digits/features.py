"""What Transform makes of an image's record: names, no TensorFlow.

Flows in: the raw features of `components.image_features`. Flows out, to `run_fn`: the stored
image as it is, and the label `label_xf` int64 [1], the number of the class. Images are decoded
where they are read: decoded, they would be a copy of the data many times its size.
"""

from penstock import image_features

STORED = (image_features.ENCODED, image_features.HEIGHT, image_features.WIDTH)
"""Taken as they are."""

LABEL_XF = "label_xf"

CLASSES = "classes"
"""The vocabulary of classes: number, tabulator, words."""
