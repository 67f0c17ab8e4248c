import re
import time
from dataclasses import replace

import keras
import pytest
import tensorflow as tf

from penstock.components.trainer.input.input import Input
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.loop import train
from penstock.components.trainer.options import TrainOptions
from penstock.components.trainer.record import EpochRecord, TrainingRecord
from penstock.components.trainer.utilisation.record import (
    BatchSeries,
    EpochTimes,
    GpuSeries,
    InputFacts,
    MachineSeries,
    StepLimit,
    Utilisation,
)
from penstock.components.trainer.utilisation.series import Durations
from penstock.components.trainer.utilisation.verdict import bottleneck

# 40 columns in 8 shards of 100 MiB in all, read by up to 16 files at a time.
ROWS = InputFacts("rows", 8, 100_000, 100.0, False, 40, True, 100, 16, 8, "none", None)
STEADY = Durations((0.05, 0.1), (0, 100))


def training(wait_share=0.05, seconds_per_step=0.1, rate=1000.0):
    epoch = EpochRecord(1, 100, 100, {}, 0.1, 10.0, seconds_per_step, wait_share, rate)
    return TrainingRecord([epoch], 100, "done", None, "loss", 1, None, 1, 11.0, 1.0)


def used(
    facts=ROWS,
    *,
    cpu,
    limit=(0.025,),
    run=(0.1,),
    wait=None,
    machine=None,
    others=None,
    free_memory_mib=150.0,
    waits=STEADY,
    gpu=None,
    gpu_idle_share=None,
):
    """100 steps in 10 s on two cores, of which `cpu` were busy; `limit` beside each of `run`."""
    wait = max(0.0, 1 - sorted(limit)[len(limit) // 2] / 0.1) if wait is None else wait
    waited = None if gpu is not None else 10 * wait
    gpus = () if gpu is None else (GpuSeries(0, "H200", 1e5, (gpu,), (1.0,)),)
    return Utilisation(
        cores=2.0,
        memory_limit_mib=4096.0,
        free_memory_mib=free_memory_mib,
        missed=None,
        machine=MachineSeries((5.0,), (1.0,), (100.0,), gpus),
        batches=BatchSeries((), 100 * (0.1,), ()),
        batch_seconds=STEADY,
        wait_seconds=waits,
        epochs=(EpochTimes(1, 0.0, 10.0, 10.5, 100, 10.0, waited, 20.0 * cpu),),
        input=facts,
        limit=StepLimit(10 // len(limit) * limit, gpu is not None, 10 // len(run) * run),
        gpu_idle_share=gpu_idle_share,
        machine_busy_share=machine,
        others_busy_share=others,
    )


INPUT_BOUND = (
    "input-bound: 100.00 ms a step (1,000 examples/s), 25.00 ms on one batch that is already in "
    "memory; input that costs nothing would train 3.9 to 4.1 times as fast"
)


@pytest.mark.parametrize(
    ("limit", "run", "wait", "kind", "said"),
    [
        pytest.param(
            (0.099,), (0.1,), None, "compute-bound", "faster input would gain at most 4 %; the",
            id="a hundredth, and the noise of 2 % that there is always",
        ),
        pytest.param(
            (0.11,), (0.1,), None, "compute-bound", "faster input would gain at most 0 %; the step",
            id="noise alone makes steps without an input slower",
        ),
        pytest.param(
            (0.083,), (0.1,), None, "balanced", "input that costs nothing would train 1.2 times as",
            id="a fifth",
        ),
        pytest.param(
            (0.083, 0.166), (0.1, 0.2), None, "balanced", "would train 1.2 times as fast;",
            id="a fifth, while other work doubles both at times",
        ),
        pytest.param(
            (0.025, 0.025, 0.025, 0.025, 0.075), (0.1,), None, "input-bound",
            "would train 3.9 to 4.1 times as fast;",
            id="other work on the machine makes some calls without an input longer",
        ),
        pytest.param(
            (0.0005,), (0.1,), None, "input-bound", "would train more than 100 times as fast;",
            id="hardly any step",
        ),
        pytest.param(
            (0.06, 0.06, 0.08, 0.08, 0.1), (0.1,), 0.0, "unclear",
            "the gain may be 1.0 to 1.6 times: train longer, or on a quieter machine, to tell",
            id="nothing to a half, by the noise",
        ),
        pytest.param(
            (0.07, 0.07, 0.08, 0.095, 0.095), (0.1,), 0.0, "unclear", "may be 1.0 to 1.5 times: tr",
            id="a fiftieth to a third, by the noise",
        ),
        pytest.param(
            (0.08, 0.08, 0.09, 0.095, 0.095), (0.1,), 0.0, "unclear", "may be 1.0 to 1.3 times: tr",
            id="a loss to a fifth, by the noise",
        ),
        pytest.param(
            (0.05, 0.2), (0.1,), 0.0, "unclear", "train longer, or on a quieter machine, to tell",
            id="other work beside some samples only",
        ),
    ],
)  # fmt: skip
def test_gain_is_given_no_finer_than_its_noise(limit, run, wait, kind, said):
    sentence = bottleneck(training(), used(cpu=0.95, limit=limit, run=run, wait=wait))
    assert sentence.startswith(f"{kind}: 100.00 ms a step (1,000 examples/s), ")
    assert said in sentence


def test_steps_that_never_wait_are_compute_bound_if_cores_are_idle():
    # A drifting machine made the samples look faster than the run.
    sentence = bottleneck(training(), used(cpu=0.2, limit=(0.06,), wait=0.0))
    assert sentence.startswith("compute-bound: ")
    full = bottleneck(training(), used(cpu=0.2, machine=0.99, limit=(0.06,), wait=0.0))
    assert full.startswith("input-bound: ")


def test_waits_are_the_least_gain():
    sentence = bottleneck(training(), used(cpu=0.2, limit=(0.1,), wait=0.75))
    assert sentence.startswith("input-bound: ")
    assert "would train 3.9 to 4.0 times as fast" in sentence


@pytest.mark.parametrize(
    ("others", "machine", "kind"),
    [(0.2, 0.9, "input-bound"), (0.3, 0.9, "unclear"), (0.3, 0.6, "input-bound")],
    ids=["a few cores taken", "all cores taken", "cores are left"],
)
def test_other_processes_that_leave_no_core_make_the_verdict_unclear(others, machine, kind):
    sentence = bottleneck(training(), used(cpu=0.5, others=others, machine=machine))
    assert sentence.startswith(f"{kind}: ")
    said = "other processes kept 30 % of the machine's cores busy" in sentence
    assert said == (kind == "unclear")


def test_long_evaluation_and_first_step_are_named_as_shares_of_the_run():
    utilisation = used(cpu=0.95, limit=(0.1,))
    epochs = (replace(utilisation.epochs[0], end_seconds=30.0),)
    record = replace(training(), seconds=40.0, first_step_seconds=10.0)
    sentence = bottleneck(record, replace(utilisation, epochs=epochs))
    assert sentence.endswith(
        "; evaluation took 50 % of the run; the first step, with the start of the input, took "
        "25 % of the run"
    )


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (
            training(0.2),
            "unknown: 20 % of each 100.00 ms step waits, steps were not compared with the "
            "same steps without an input",
        ),
        (training(None), "unknown: steps were not compared with the same steps without an input"),
        (training(None, None), "unknown: 100 steps measured, too few to time"),
    ],
)
def test_without_a_measured_limit_there_is_no_verdict(record, sentence):
    assert bottleneck(record) == sentence
    assert bottleneck(record, replace(used(cpu=0.2), limit=None)) == sentence


def test_a_gpu_is_told_by_its_own_batch_and_by_its_profile():
    utilisation = used(cpu=0.2, gpu=0.95, limit=(0.067,), gpu_idle_share=0.333)
    assert bottleneck(training(None), utilisation).startswith(
        "input-bound: 100.00 ms a step (1,000 examples/s), 67.00 ms on one batch that is already "
        "on the GPU; by a profile the GPU stands still 33 % of it; input that costs nothing would "
        "train 1.5 times as fast; "
    )


IDLE = "20 % of 2 cores are busy"
FULL = "95 % of 2 cores are busy"
A_ROW = "(1,900.0 us of CPU a row, its share of the step included)"


@pytest.mark.parametrize(
    ("utilisation", "advice"),
    [
        pytest.param(
            used(replace(ROWS, rows=5000), cpu=0.95, free_memory_mib=250.0),
            "keep the rows in memory (cache=memory): 100.0 MiB of shards, read 2.0 times, go into "
            "the 250 MiB that are free; pack the rows, which costs about 2 passes over them once, "
            f"or train on fewer columns: 40 are parsed of each row, and {FULL} {A_ROW}",
            id="data that fits memory and is read twice is cached",
        ),
        pytest.param(
            used(replace(ROWS, rows=5000, compressed=True), cpu=0.95, free_memory_mib=250.0),
            "pack the rows, which costs about 2 passes over them once, or train on fewer columns: "
            f"40 are parsed of each row, and {FULL} "
            f"{A_ROW}; shards without compression: each pass inflates them again, and {FULL}",
            id="what GZIP has made small may not fit",
        ),
        pytest.param(
            used(cpu=0.2),
            "more shards: 8 files read at a time, up to 16 could be, and " + IDLE,
            id="fewer shards than could be read, and idle cores",
        ),
        pytest.param(
            used(replace(ROWS, files=64), cpu=0.2),
            f"more files at a time (interleave_files, 16 of 64 now): {IDLE}",
            id="more shards than are read at a time, and idle cores",
        ),
        pytest.param(
            used(replace(ROWS, files=16), cpu=0.2),
            f"a nearer or faster disk for 16 files: {IDLE}, and no option holds the input up",
            id="idle cores and nothing that holds them up",
        ),
        pytest.param(
            used(replace(ROWS, files=1), cpu=0.69),
            "pack the rows, which costs about 2 passes over them once, or train on fewer columns: "
            "40 are parsed of each row, and 69 % of 2 cores are busy (1,380.0 us of CPU a row, "
            "its share of the step included)",
            id="one shard that keeps most of the cores busy",
        ),
        pytest.param(
            used(replace(ROWS, files=16, kind="images", compressed=True), cpu=0.6),
            "pack the images as pixels: each pass decodes them again, and 60 % of 2 cores are "
            "busy (1,200.0 us of CPU a row, its share of the step included); shards without "
            "compression: each pass inflates them again, and 60 % of 2 cores are busy",
            id="compressed shards on cores that are more than half busy",
        ),
        pytest.param(
            used(replace(ROWS, files=1, cache="memory"), cpu=0.2),
            f"no option of the input holds it up, and {IDLE}",
            id="a cache that is full reads no shards",
        ),
        pytest.param(
            used(replace(ROWS, kind="images", columns=2), cpu=0.95),
            f"pack the images as pixels: each pass decodes them again, and {FULL} {A_ROW}",
            id="full cores that decode images",
        ),
        pytest.param(
            used(replace(ROWS, files=16, private_threads=1), cpu=0.2),
            f"more threads (private_threads, 1 now): {IDLE}",
            id="fewer threads than cores",
        ),
        pytest.param(
            used(replace(ROWS, files=16), cpu=0.2, waits=Durations((1e-5, 10.0), (95, 5))),
            "a bigger prefetch (prefetch_batches, 8 now): 100 % of the waiting is in waits longer "
            "than ten steps, half of the steps wait less than 0.01 ms",
            id="waits that come in bursts",
        ),
        pytest.param(
            used(replace(ROWS, kind="packed", files=16), cpu=0.95),
            f"fewer columns: 40 are copied of each row, and {FULL} {A_ROW}",
            id="full cores and many columns that are packed already",
        ),
        pytest.param(
            used(replace(ROWS, kind="packed", files=16, columns=3), cpu=0.95),
            f"more cores, or an accelerator for the step: {FULL} {A_ROW}",
            id="full cores and nothing left to do",
        ),
        pytest.param(
            used(None, cpu=0.95),
            f"do less for each row, or do it once before training: {FULL}",
            id="full cores and an input of the user's own",
        ),
        pytest.param(
            used(None, cpu=0.2),
            "let the input work in parallel and ahead (map with num_parallel_calls, prefetch): "
            f"only {IDLE}",
            id="idle cores and an input of the user's own",
        ),
    ],
)
def test_the_knob_follows_from_the_evidence(utilisation, advice):
    assert bottleneck(training(), utilisation) == f"{INPUT_BOUND}; {advice}"


def test_short_steps_want_larger_batches():
    facts = replace(ROWS, cache="memory", files=16)
    sentence = bottleneck(training(seconds_per_step=0.0005), used(facts, cpu=0.95))
    assert "; larger batches (batch_size, 100 now): a step of 0.50 ms is little more" in sentence


@pytest.mark.parametrize(
    ("evidence", "advice"),
    [
        (
            {"cpu": 0.95},
            "the step keeps 95 % of 2 cores busy: an accelerator, or a smaller model would help",
        ),
        (
            {"cpu": 0.2, "gpu": 0.98},
            "the GPU is 98 % busy: mixed_precision or a smaller model would help",
        ),
        (
            {"cpu": 0.2, "gpu": 0.3},
            "the GPU is 30 % busy, its steps too short: larger batches help",
        ),
        (
            {"cpu": 0.2, "gpu": 0.98, "gpu_idle_share": 0.75},
            "the GPU is 25 % busy, its steps too short: larger batches help",
        ),
    ],
)
def test_a_step_that_never_waits_is_told_what_it_is_short_of(evidence, advice):
    sentence = bottleneck(training(), used(limit=(0.1,), **evidence))
    assert sentence.endswith(f"; faster input would gain at most 2 %; {advice}")


def verdict_of(folder, build_model, data, facts=None, steps=12):
    trained = train(
        build_model,
        data,
        options=TrainOptions(max_steps=steps),
        model_run_dir=str(folder),
        input_facts=facts,
    )
    alone = replace(trained.utilisation, others_busy_share=None)  # whatever else this machine does
    return bottleneck(trained.record, alone)


def test_a_real_input_that_sleeps_is_told_to_work_ahead(tmp_path, toy):
    data = toy.slowed(toy.dataset(), lambda: time.sleep(0.05)).repeat()
    sentence = verdict_of(tmp_path, toy.build_model, data)
    assert sentence.startswith("input-bound: ")
    assert re.search("; input that costs nothing would train .* times as fast; ", sentence)
    assert "let the input work in parallel and ahead" in sentence


def test_a_real_step_that_is_slow_is_never_input_bound(tmp_path, toy):
    """A busy machine makes it unclear at worst: the test needs no quiet one."""

    class SlowStep(keras.Model):
        def train_step(self, batch):
            with tf.control_dependencies([tf.py_function(lambda: time.sleep(0.05), [], [])]):
                batch = tf.nest.map_structure(tf.identity, batch)
            return super().train_step(batch)

    def build_model():
        x = keras.Input((1,), name="x")
        model = SlowStep({"x": x}, keras.layers.Dense(1, activation="sigmoid")(x))
        model.compile("adam", "binary_crossentropy")
        return model

    data = toy.dataset().repeat().prefetch(2)
    trained = train(
        build_model, data, options=TrainOptions(max_steps=12), model_run_dir=str(tmp_path)
    )
    used = trained.utilisation
    # Without other work on the machine its cores are idle, as the step sleeps.
    quiet = replace(used, machine_busy_share=None, others_busy_share=None)
    assert bottleneck(trained.record, quiet).startswith("compute-bound: ")
    assert not bottleneck(trained.record, used).startswith("input-bound: ")


def test_real_shards_that_are_read_often_are_told_to_be_cached(data, tmp_path, toy):
    directory = data.write_examples(tmp_path / "examples")
    options = InputOptions(batch_size=50)
    spec = {"x": data.spec["x"], "y": data.spec["y"]}
    slow = toy.slowed(
        Input.rows(str(directory), spec, options=options, label="y").train(),
        lambda: time.sleep(0.02),
    )
    facts = Input.rows(str(directory), spec, options=options).facts()
    sentence = verdict_of(tmp_path / "run", toy.build_model, slow, facts)
    assert sentence.startswith("input-bound: ")
    assert "; keep the rows in memory (cache=memory): 0.0 MiB of shards, read 5.8 times" in sentence
    assert "; more shards: 3 files read at a time, up to 8 could be, and " in sentence


def test_too_few_steps_have_no_verdict(tmp_path, toy):
    sentence = verdict_of(tmp_path, toy.build_model, toy.dataset().repeat(), steps=1)
    assert sentence == "unknown: 1 step measured, too few to time"
