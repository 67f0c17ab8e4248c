"""TFX nodes and their options.

The names and the modules that define them are in `nodes.pyi`; each is loaded on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__package__, __file__)
