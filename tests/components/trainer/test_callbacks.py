"""Keras callbacks of a user in `train`: one of their own, and MLflow's."""

import keras
import pytest

from penstock.components.trainer.loop import train
from penstock.components.trainer.options import TrainOptions


@pytest.fixture
def trained_with(toy, tmp_path):
    def run(*callbacks):
        return train(
            toy.build_model,
            toy.dataset().repeat(),
            toy.dataset(),
            options=TrainOptions(epochs=2, steps_per_epoch=4),
            model_run_dir=str(tmp_path / "run"),
            callbacks=callbacks,
        )

    return run


def test_callback_of_a_user_sees_each_epoch(trained_with):
    seen = []

    class Mine(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            seen.append((epoch, sorted(logs)))

    trained_with(Mine())
    names = ["accuracy", "loss", "val_accuracy", "val_loss"]
    assert seen == [(0, names), (1, names)]


@pytest.mark.slow
def test_mlflows_callback_logs_each_epoch(trained_with, tmp_path, monkeypatch):
    import mlflow
    from mlflow.keras import MlflowCallback

    monkeypatch.chdir(tmp_path)  # where MLflow keeps artifacts
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    with mlflow.start_run() as run:
        trained = trained_with(MlflowCallback())
    logged = mlflow.MlflowClient().get_metric_history(run.info.run_id, "val_loss")
    losses = [epoch.metrics["val_loss"] for epoch in trained.record.epochs]
    assert [metric.value for metric in logged] == pytest.approx(losses)
