"""Avro files: ranges of blocks."""
