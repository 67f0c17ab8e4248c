"""Curated schemas, shipped as package data in files `<use case>/schema.pbtxt`."""

from pathlib import Path


def schema_file(use_case: str) -> str:
    """Returns the path of a use case's curated schema."""
    return str(Path(__file__).parent / use_case / "schema.pbtxt")
