"""TFX components that turn outside data into sharded TFRecords and pushed models.

The top level has most commands as functions, `Rows` and the errors. The submodules `sources`,
`nodes`, `training`, `recipes` and `kubeflow` have the other public names. Names in all other
modules are private. Names load on first use: `import penstock` alone imports no TensorFlow.
"""

import lazy_loader

__version__ = "0.1.0"

# The names and their modules are in __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
