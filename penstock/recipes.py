"""Complete pipelines and their parts: DAGs, configs, models, preprocessing of tables and images.

The names and the modules that define them are in `recipes.pyi`; each is loaded on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__package__, __file__)
