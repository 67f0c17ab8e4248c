"""Measurement of where a training's time and hardware went, and the verdict drawn from it."""
