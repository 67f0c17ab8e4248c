"""Measures where a training's time and hardware went, and draws a verdict from it."""
