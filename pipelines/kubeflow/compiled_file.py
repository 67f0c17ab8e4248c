"""Checks of a compiled file's image and path, before heavy imports.

Light to import: what is wrong here shows before TFX and kfp have taken their seconds.
"""

import re
from pathlib import Path

from penstock.components.errors import UsageError

_DIGEST_DIGITS = 64
_BY_DIGEST = re.compile(rf"^[^\s@]+@sha256:[0-9a-f]{{{_DIGEST_DIGITS}}}$")
_WRONG_DIGEST = re.compile(r"^[^\s@]+@sha256:(?P<digest>.*)$")


def check_image(image: str, allow_mutable_tag: bool) -> None:
    """Refuse, by UsageError, what is no image, or one that may change."""
    if not image or re.search(r"[\s{}]", image):
        raise UsageError(f"not the name of an image: {image!r}")
    if _BY_DIGEST.match(image):
        return
    if wrong := _WRONG_DIGEST.match(image):
        raise UsageError(
            f"image {image!r}: a sha256 digest is {_DIGEST_DIGITS} hexadecimal digits in lower "
            f"case, got {len(wrong['digest'])} characters; registry and build print the whole one"
        )
    if not allow_mutable_tag:
        raise UsageError(
            f"image {image!r} may change between two runs; give it by digest "
            "(NAME@sha256:...), or pass --allow-mutable-tag"
        )


def check_yaml(out: Path) -> None:
    """Refuse, by UsageError, a file that Kubeflow would not read."""
    if out.suffix not in (".yaml", ".yml"):
        raise UsageError(f"{out}: Kubeflow reads files that end in .yaml")
