"""Writes the package of a pipeline for the user's data, for `penstock init`."""
