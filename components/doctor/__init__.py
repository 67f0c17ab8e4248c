"""Inspection and verification of TFRecord files, with or without a manifest."""
