"""TFRecord files: sharding, encoding, writing, the manifest, and a doctor for any of them.

Imports no TFX and no Beam; only `features` and what needs a tensor import TensorFlow.
"""
