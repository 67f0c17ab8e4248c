"""A tracker's own Keras callback in `train`."""

import pytest

from penstock.components.trainer.loop import train
from penstock.components.trainer.options import TrainOptions


@pytest.mark.slow
def test_mlflows_callback_logs_each_epoch(toy, tmp_path, monkeypatch):
    import mlflow
    from mlflow.keras import MlflowCallback

    monkeypatch.chdir(tmp_path)  # where MLflow keeps artifacts
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    data, options = toy.dataset(), TrainOptions(epochs=2, steps_per_epoch=4)
    with mlflow.start_run() as run:
        trained = train(
            toy.build_model,
            data.repeat(),
            data,
            options=options,
            model_run_dir=str(tmp_path / "run"),
            callbacks=[MlflowCallback()],
        )
    logged = mlflow.MlflowClient().get_metric_history(run.info.run_id, "val_loss")
    losses = [epoch.metrics["val_loss"] for epoch in trained.record.epochs]
    assert [metric.value for metric in logged] == pytest.approx(losses)
