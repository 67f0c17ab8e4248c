"""The verdict on measured steps; all durations are given, so no test depends on the machine."""

from dataclasses import replace

import pytest

from penstock.components.trainer.utilisation.verdict import Speed, input_gain, verdict

# NOISE: step times in ten parts of a run, divided by their mean. KEPT: step times of five calls
# that repeat one batch, about 8 ms. In each tuple, all values are within 2 % of the mean.
NOISE = (1.0, 1.01, 0.99, 1.02, 1.0, 0.98, 1.01, 1.0, 0.99, 1.0)
KEPT = (0.00805, 0.008, 0.0081, 0.00802, 0.00798)
QUIET = Speed(
    KEPT, KEPT, steps=10_000, cores=2.0, own_share=0.1, others_share=0.02, gpu_idle_share=None
)


def run_of(milliseconds, **more):
    return replace(QUIET, run_seconds=[milliseconds / 1000 * part for part in NOISE], **more)


@pytest.mark.parametrize(
    ("step_ms", "true_gain", "kind", "promise"),
    [
        (8.1, 1.0, "compute-bound", "faster input would gain at most 5 %"),  # input takes 1 ms
        (10.1, 1.25, "balanced", "would train 1.2 to 1.3 times as fast"),  # input takes 10 ms
        (12.1, 1.5, "input-bound", "would train 1.5 to 1.6 times as fast"),  # input takes 12 ms
        (24.1, 3.0, "input-bound", "would train 2.9 to 3.1 times as fast"),  # input takes 24 ms
        (60.1, 7.5, "input-bound", "would train 7.3 to 7.7 times as fast"),  # input takes 60 ms
    ],
)
def test_gain_of_sleeping_inputs_is_within_the_range(step_ms, true_gain, kind, promise):
    speed = run_of(step_ms)
    gain = input_gain(speed)
    assert gain.least <= true_gain <= gain.most
    assert verdict(speed).startswith(f"{kind}: ")
    assert promise in verdict(speed)


def test_sentence_has_the_evidence():
    assert verdict(run_of(10.0), batch_rows=1000) == (
        "balanced: 10.00 ms a step (100,000 examples/s), 8.02 ms on one kept batch; input that "
        "costs nothing would train 1.2 to 1.3 times as fast; this process used 10 % of 2 cores"
    )


@pytest.mark.parametrize(
    ("own", "others", "is_unclear"),
    [(0.2, 0.7, True), (0.6, 0.3, True), (0.2, 0.4, False), (0.9, 0.1, False), (0.05, 0.2, False)],
)
def test_unclear_only_if_others_take_the_cores_of_this_cgroup(own, others, is_unclear):
    sentence = verdict(run_of(24.0, own_share=own, others_share=others))
    assert sentence.startswith("unclear: ") == is_unclear
    if is_unclear:
        assert f"other processes took {100 * others:.0f} % of 2 cores" in sentence


def test_spread_of_the_steps_widens_the_range_but_is_not_unclear():
    wild = replace(run_of(12.0), kept_seconds=(0.004, 0.012, 0.008, 0.02, 0.007))
    gain = input_gain(wild)
    assert gain.times == pytest.approx(1.5)
    assert (gain.least, gain.most) == pytest.approx((0.85, 2.66), abs=0.05)
    assert verdict(wild).startswith("input-bound: ")
    assert "faster input would gain at most" in verdict(wild)


@pytest.mark.parametrize(
    ("idle", "advice"), [(0.4, " between its short steps: larger batches would help"), (0.1, "")]
)
def test_idle_gpu_between_short_steps_is_told(idle, advice):
    sentence = verdict(run_of(8.1, gpu_idle_share=idle))
    assert sentence.startswith("compute-bound: ")
    assert sentence.endswith(f"the GPU stood idle {100 * idle:.0f} % of the time{advice}")


def test_short_run_with_a_wide_range_says_that_it_is_too_short():
    assert verdict(None) == "unknown: too few steps to time"
    # Step times from 3.8 s of the taxi training on a loaded machine.
    short = replace(QUIET, run_seconds=(0.004, 0.011, 0.007, 0.003), steps=600)
    assert verdict(short) == (
        "unknown: 600 steps in 3.8 s are too few to tell whether the input limits the training; "
        "a longer training will"
    )
    assert verdict(replace(short, steps=6000)).startswith("compute-bound: ")
    assert verdict(replace(run_of(24.0), steps=100)).startswith("input-bound: ")
    crowded = verdict(replace(short, own_share=0.2, others_share=0.7))
    assert crowded.startswith("unclear: ")
    assert "other processes took 70 % of 2 cores" in crowded
