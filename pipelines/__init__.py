"""Pipelines, one folder per use case, and the ways to run them."""
