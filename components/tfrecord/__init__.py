"""TFRecord files: sharding, encoding, writing, reading, the manifest.

The package imports no TFX and no Beam. At import, only `feature_spec` loads TensorFlow; a few
functions of other modules load it when they are called.
"""
