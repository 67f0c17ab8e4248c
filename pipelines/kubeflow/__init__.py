"""TFX pipelines compiled for, submitted to and run on open-source Kubeflow Pipelines v2."""
