"""Validation of an Examples folder without a pipeline, and its page."""
