"""Runs on this machine by TFX's LocalDagRunner."""
