"""Runs pipelines on this machine with TFX's LocalDagRunner."""
