"""Predictions of a pushed model for rows or images, for `penstock predict`."""
