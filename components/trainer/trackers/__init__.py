"""Experiment trackers: TensorBoard always, and MLflow if asked for, with the same data.

    params    every option as text, such as `train.max_steps`
    metrics   `epoch_<metric>` at the end of each epoch, `utilisation/<figure>` every few seconds
    files     `training.json` and `utilisation.json`, at the end
    state     finished, failed or interrupted

Credentials come only from the environment, as MLflow documents: `MLFLOW_TRACKING_USERNAME`,
`_PASSWORD` or `_TOKEN`.
"""
