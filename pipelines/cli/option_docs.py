"""The description of each field of an options dataclass, from its docstring."""

import inspect
import re
from collections.abc import Iterator


def field_docs(options_type: type) -> dict[str, str]:
    """Field name to its text in the docstring's `Attributes:`, as one line.

    Of a dataclass that extends another, the other's texts come first.
    """
    docs: dict[str, str] = {}
    for base in reversed(options_type.__mro__):
        docs.update(_entries(base.__doc__ or ""))
    return docs


def _entries(doc: str) -> Iterator[tuple[str, str]]:
    _, _, attributes = inspect.cleandoc(doc).partition("\nAttributes:\n")
    section = re.split(r"^\S", attributes, maxsplit=1, flags=re.MULTILINE)[0]
    # A field begins at the section's own indent, its further lines stand deeper.
    for entry in re.split(r"^ {4}(?=\w)", section, flags=re.MULTILINE)[1:]:
        name, colon, text = entry.partition(":")
        if colon:
            yield name.strip(), " ".join(text.replace("`", "").split())
