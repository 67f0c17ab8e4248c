"""Input, training loop, export and serving, usable without TFX pipelines; `tuner_fn` for the Tuner.

The names and the modules that define them are in `training.pyi`; each is loaded on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__package__, __file__)
