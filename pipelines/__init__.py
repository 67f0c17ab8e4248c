"""The pipelines `taxi` and `digits`, the parts of pipelines, and the commands that run them."""
