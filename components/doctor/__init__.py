"""Inspects and verifies TFRecord files, with or without a manifest; compares two data sets."""
