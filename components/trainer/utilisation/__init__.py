"""Measures whether the input limited a training's speed, and reports this in one sentence."""
