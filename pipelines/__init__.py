"""Pipelines, one folder a use case, and the ways to run them."""
