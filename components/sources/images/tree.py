"""The image files below the folders that a user named.

Files that are surely no images (hidden ones, READMEs, text, tables, label files) are left out
and reported; every other file counts, and is rejected later if it is no image after all.
"""

import re
from collections.abc import Sequence

from penstock.components.sources.whole_files.tree import STRAY, Tree, find_tree

_STRAY = re.compile(
    rf"{STRAY.pattern}|\.(txt|[ct]sv|jsonl?|xml|ya?ml|md|html?|mat|np[yz]|h5|hdf5|pbtxt|parquet|pkl"
    r"|pth?|ini|db|log|py|sh|ipynb)$",
    re.IGNORECASE,
)


def find_images(inputs: Sequence[str]) -> Tree:
    """Find the images of folders (recursively), globs and named files.

    Raises:
        DataError: An input is not there, or there is no image in any.
        UsageError: An input is an address that no files are read from.
    """
    return find_tree(inputs, _STRAY, "image file")
