"""Training from TFRecord shards: input, Keras' fit, diagnosis of the speed, export.

`pipelines/taxi/model.py` is a whole `run_fn` for TFX's Trainer; docs/training.md shows a training
without TFX.
"""

import os

# GPU memory is taken as needed, which leaves the rest to other processes on the GPU. TensorFlow
# reads this variable when its first operation opens the GPU, so it is set before any part of this
# package is imported.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
