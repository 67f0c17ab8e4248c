"""Experiment trackers: TensorBoard always, MLflow or Comet beside it, all told the same.

    params    every option, `train.max_steps` and the like, as text
    metrics   `epoch_<metric>` at the end of each epoch, `utilisation/<figure>` every few seconds
    files     `training.json` and `utilisation.json`, at the end
    state     finished, failed or interrupted

Keys come from the environment alone: `MLFLOW_TRACKING_USERNAME`, `_PASSWORD` or `_TOKEN`, and
`COMET_API_KEY`, as the trackers' own documents say.
"""
