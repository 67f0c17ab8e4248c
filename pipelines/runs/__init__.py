"""Runs in the metadata store: records, notes, attempts and summaries."""
