"""Parts of pipelines, one per module."""

import lazy_loader

# `penstock.recipes` makes these modules public. They import TensorFlow, so they are loaded only on
# first use.
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["preprocessing", "resolvers"])
