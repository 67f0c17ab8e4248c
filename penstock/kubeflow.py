"""Placement of a pipeline's nodes on a Kubernetes cluster.

`kubeflow.pyi` lists the public names and the modules that define them; each name is loaded on first
use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__package__, __file__)
