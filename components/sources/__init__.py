"""Readers of outside data: a module or package per kind, which opens data as a `base.Source`."""
