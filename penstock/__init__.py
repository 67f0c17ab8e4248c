"""Outside data to sharded TFRecords, checked, trained from at full speed, evaluated and pushed.

Everything a user composes with is a name of this package; what is not is private. Names load what
they need when they are first used: `import penstock` alone costs no TensorFlow.
"""

import lazy_loader

__version__ = "0.1.0"

# The names and their modules are in __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
