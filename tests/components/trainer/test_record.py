import pytest

from penstock.components.errors import DataError
from penstock.components.trainer.options import EarlyStop
from penstock.components.trainer.record import (
    EpochRecord,
    TrainingRecord,
    best_epoch,
    read_training_record,
    should_stop,
    write_training_record,
)
from penstock.components.trainer.utilisation.verdict import Speed


def epoch(number, per_step=0.25, rate=100.0, seconds=2.0, **metrics):
    return EpochRecord(number, 4 * number, 4, metrics, 0.1, seconds, per_step, rate)


def record(*epochs):
    return TrainingRecord(
        epochs=epochs,
        steps=8,
        stopped="all 8 steps done",
        best_epoch=2,
        best_metric="val_loss",
        exported_epoch=2,
        resumed_from=None,
        replicas=1,
        seconds=9.0,
        first_step_seconds=1.5,
        input_rows=103,
        batch_rows=10,
        speed=Speed((0.25, 0.5), (0.25, 0.25), 8, 2.0, 0.5, 0.0, None),
    )


def test_a_record_is_read_back_as_it_was_written(tmp_path):
    written = record(epoch(1, loss=0.5), epoch(2, None, None, val_loss=0.25))
    write_training_record(tmp_path / "new" / "run", written)
    assert read_training_record(tmp_path / "new" / "run") == written
    assert [path.name for path in (tmp_path / "new" / "run").iterdir()] == ["training.json"]


def test_figures_over_all_epochs_are_weighted_by_their_time():
    whole = record(epoch(1, 0.2, 100.0, 3.0), epoch(2, 0.3, 300.0, 1.0), epoch(3, None, None, 0.0))
    assert whole.examples_per_second == 150.0


def test_what_is_no_record_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no training\.json; another loop"):
        read_training_record(tmp_path)
    (tmp_path / "training.json").write_text("{}")
    with pytest.raises(DataError, match=r"training\.json: not a training record"):
        read_training_record(tmp_path)
    (tmp_path / "training.json").write_text('{"version": 99}')
    with pytest.raises(DataError, match="a training record of another version; train again"):
        read_training_record(tmp_path)


def test_the_log_line_of_an_epoch():
    line = "epoch 2  step 8  loss 0.5000  val_loss 0.2500  250.00 ms/step"
    assert str(epoch(2, loss=0.5, val_loss=0.25)) == line
    assert str(epoch(2, None, loss=0.5)) == "epoch 2  step 8  loss 0.5000"


def test_the_best_epoch_follows_the_rule():
    epochs = [epoch(n, auc=auc) for n, auc in enumerate([0.5, 0.75, 0.76, 0.7], start=1)]
    assert best_epoch(epochs, EarlyStop(metric="auc", mode="max")).epoch == 3
    assert best_epoch(epochs, EarlyStop(metric="auc", mode="max", min_delta=0.1)).epoch == 2
    assert best_epoch(epochs, EarlyStop(metric="auc", mode="min")).epoch == 1
    assert best_epoch(epochs, EarlyStop(metric="other")) is None
    unknown = [epoch(1, auc=float("nan")), epoch(2, auc=0.1)]
    assert best_epoch(unknown, EarlyStop(metric="auc", mode="max")).epoch == 2


def test_patience_counts_epochs_since_the_best():
    rule = EarlyStop(metric="loss", patience_epochs=2)
    epochs = [epoch(n, loss=loss) for n, loss in enumerate([3, 2, 2.5, 2], start=1)]
    assert [should_stop(epochs[:n], rule) for n in (1, 2, 3, 4)] == [False, False, False, True]
