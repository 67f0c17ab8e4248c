"""Ingests sources as Examples: planning, tasks, commit, and the TFX node."""
