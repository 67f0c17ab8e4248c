"""Training from TFRecord shards: input, loop, utilisation, export.

`pipelines/taxi/run_fn.py` is a whole `run_fn` for TFX's Trainer; docs/training.md has a training
without TFX.
"""
