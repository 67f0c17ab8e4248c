"""Plain Kubeflow components: single steps for pipelines without TFX."""
