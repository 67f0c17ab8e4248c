"""TFRecord files: sharding, encoding, writing, reading, the manifest.

Imports no TFX and no Beam, and TensorFlow only in `feature_spec`.
"""
