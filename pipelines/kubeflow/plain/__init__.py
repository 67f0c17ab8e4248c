"""Plain Kubeflow components: single steps for pipelines that know no TFX."""
