import time

import pytest
import tensorflow as tf

from penstock.components.errors import DataError
from penstock.components.trainer import limit
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.loop import train
from penstock.components.trainer.options import TrainOptions
from penstock.components.trainer.utilisation.record import (
    BatchSeries,
    EpochTimes,
    GpuSeries,
    InputFacts,
    MachineSeries,
    StepLimit,
    Utilisation,
    read_utilisation,
    write_utilisation,
)
from penstock.components.trainer.utilisation.series import Durations

FACTS = InputFacts("rows", 8, 1000, 1.5, False, 40, True, 64, 16, 8, "none", None)


def utilisation(**changes):
    fields = {
        "cores": 2.0,
        "memory_limit_mib": 4096.0,
        "free_memory_mib": 1024.0,
        "missed": None,
        "machine": MachineSeries(
            seconds=(0.5, 1.5, 2.5),
            process_cores=(1.0, 2.0, 0.5),
            memory_mib=(100.0, 200.0, 200.0),
            gpus=(GpuSeries(0, "H200", 1024.0, (0.0, 0.5, 1.0), (1.0, 2.0, 3.0)),),
        ),
        "batches": BatchSeries((1.5, 3.5), (0.25, 0.5), (0.125, 0.25)),
        "batch_seconds": Durations((0.5,), (4,)),
        "wait_seconds": Durations((0.25,), (4,)),
        "epochs": (EpochTimes(1, 1.0, 2.0, 3.0, 4, 1.0, 0.5, 1.5),),
        "input": FACTS,
        "limit": StepLimit((0.125, 0.25), on_gpu=False),
        "gpu_idle_share": 0.5,
    }
    return Utilisation(**{**fields, **changes})


def test_a_record_is_read_back_as_it_was_written(tmp_path):
    nothing = {"input": None, "free_memory_mib": None, "limit": None, "gpu_idle_share": None}
    for written in (utilisation(), utilisation(**nothing, missed="lost")):
        write_utilisation(tmp_path / "run", written)
        assert read_utilisation(tmp_path / "run") == written
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["utilisation.json"]


def test_figures_are_kept_to_six_digits(tmp_path):
    write_utilisation(tmp_path, utilisation(cores=1.23456789))
    assert read_utilisation(tmp_path).cores == 1.23457


def test_shares_are_of_the_training_alone():
    assert utilisation().cpu_share == 0.75
    assert utilisation().gpu_busy_share == 0.5
    assert utilisation(epochs=()).cpu_share is None
    assert utilisation(epochs=()).gpu_busy_share is None


def test_what_is_no_record_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no utilisation\.json; the training did not end"):
        read_utilisation(tmp_path)
    (tmp_path / "utilisation.json").write_text("{}")
    with pytest.raises(DataError, match=r"utilisation\.json: not a utilisation record"):
        read_utilisation(tmp_path)
    (tmp_path / "utilisation.json").write_text('{"version": 99}')
    with pytest.raises(DataError, match="a utilisation record of another version; train again"):
        read_utilisation(tmp_path)


def test_a_training_leaves_its_record(tmp_path, toy, monkeypatch):
    # On a busy machine these 16 steps may take as long as a long run, which samples in its midst.
    monkeypatch.setattr(limit, "_LONG_SECONDS", float("inf"))
    batches = []

    def work():
        batches.append(len(batches))
        time.sleep(0.05)

    no_work_ahead = tf.data.Options()
    no_work_ahead.experimental_optimization.inject_prefetch = False
    trained = train(
        toy.build_model,
        toy.slowed(toy.dataset(), work).repeat().with_options(no_work_ahead),
        toy.dataset(),
        options=TrainOptions(epochs=2, steps_per_epoch=8),
        model_run_dir=str(tmp_path),
        input_facts=FACTS,
    )
    used = read_utilisation(tmp_path)
    # 16 steps that wait 50 ms or more each, less the first, which is compiled.
    assert [(e.epoch, e.steps) for e in used.epochs] == [(1, 7), (2, 8)]
    assert used.batch_seconds.count == used.wait_seconds.count == 15
    assert used.batches.step == tuple(float(step) for step in range(2, 17))
    assert 0.04 < used.wait_seconds.quantile(0.5) < used.batch_seconds.quantile(0.5) * 1.01
    for epoch, recorded in zip(used.epochs, trained.record.epochs, strict=True):
        assert epoch.step_seconds == pytest.approx(recorded.seconds, rel=1e-5)
        assert 0.04 * epoch.steps < epoch.wait_seconds < epoch.step_seconds
        assert epoch.begin_seconds < epoch.trained_seconds < epoch.end_seconds
        assert sum(used.batches.seconds) < trained.record.seconds
    assert used.epochs[1].begin_seconds >= used.epochs[0].end_seconds
    assert used.machine.seconds[-1] < trained.record.seconds
    assert len(used.machine.seconds) >= 2
    assert used.input == FACTS
    assert len(used.limit.calls) == 10
    assert used.limit.seconds > 0
    assert len(batches) == 17  # the samples of the limit repeat one batch
    assert not used.limit.on_gpu
    assert used.gpu_idle_share is None


def test_live_figures_reach_tensorboard(tmp_path, toy):
    train(
        toy.build_model,
        toy.dataset().repeat(),
        options=TrainOptions(max_steps=400, steps_per_epoch=200),
        model_run_dir=str(tmp_path),
    )
    (file,) = (tmp_path / "train").iterdir()
    events = tf.compat.v1.train.summary_iterator(str(file))
    seen = {(value.tag, event.step) for event in events for value in event.summary.value}
    for name in ("seconds_per_step", "input_wait_share", "process_cores", "memory_mib"):
        assert (f"utilisation/{name}", 400) in seen


def test_facts_of_the_input(data, tmp_path):
    directory = data.write_examples(tmp_path)
    options = InputOptions(batch_size=10, cache="memory", private_threads=2)
    facts = Input.rows(str(directory), data.spec, options=options).facts()
    stored = sum(path.stat().st_size for path in (directory / "Split-train").iterdir())
    assert facts == InputFacts(
        kind="rows",
        files=3,
        rows=103,
        stored_mib=stored / 2**20,
        compressed=False,
        columns=4,
        fixed_length=True,
        batch_rows=10,
        interleave_files=options.interleave_files,
        prefetch_batches=8,
        cache="memory",
        private_threads=2,
    )


def test_facts_of_files_without_a_manifest(data, tmp_path):
    data.write_shards(tmp_path, compression="GZIP")
    pattern = [str(tmp_path / "Split-train" / "*")]
    spec = {"name": tf.io.VarLenFeature(tf.string)}
    facts = Input.rows(pattern, spec, options=InputOptions(batch_size=10)).facts()
    assert (facts.rows, facts.files, facts.compressed) == (103, 4, True)
    assert (facts.columns, facts.fixed_length) == (1, False)
