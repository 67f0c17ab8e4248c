"""Readers of outside data: one module per kind, each with a `Source` as `base` defines it."""
