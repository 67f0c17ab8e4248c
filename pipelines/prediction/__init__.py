"""Rows or images in, a pushed model's predictions out: what `penstock predict` does."""
