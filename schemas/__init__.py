"""Curated schemas, one `<use case>/schema.pbtxt` each, shipped as package data."""
