import subprocess
import sys

import pytest
import tensorflow as tf

from penstock.components.errors import UsageError
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.input.passes import InputStart
from tests.components.trainer import conftest
from tests.components.trainer.conftest import flat, rows_of

KINDS = ("rows", "packed", "images")
ROWS = 103


@pytest.mark.parametrize("kind", KINDS)
def test_threads_and_memory_are_limited_for_every_kind(make_input, kind):
    tuning = make_input(kind, private_threads=3, ram_budget_mib=64).options()
    assert tuning.threading.private_threadpool_size == 3
    assert tuning.autotune.ram_budget == 64 * 2**20
    assert tuning.autotune.enabled is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_replicas_cannot_share_is_refused(make_input, kind):
    context = tf.distribute.InputContext(1, 0, 2)
    with pytest.raises(UsageError, match="must be a multiple of the 2 replicas in sync, got 5"):
        make_input(kind, batch_size=5, input_context=context)


def test_a_label_that_is_named_twice_is_refused(shards, data):
    reading = Input.rows(shards, data.spec, options=InputOptions(batch_size=5), label=["y", "y"])
    with pytest.raises(UsageError, match="label must name each feature once, got y, y"):
        reading.train()


@pytest.mark.parametrize("batch_size", [1, 10, 103, 500])
@pytest.mark.parametrize("kind", KINDS)
def test_evaluation_drops_nothing_and_keeps_its_order(make_input, kind, batch_size):
    dataset = make_input.of(kind, batch_size).eval(split="train")
    batches = rows_of(dataset)
    assert sorted(flat(batches)) == list(range(ROWS))
    assert {len(batch) for batch in batches[:-1]} <= {batch_size}
    assert len(batches) == -(-ROWS // batch_size)
    assert rows_of(dataset) == batches


WAYS = [
    ("rows", {}),
    ("rows", {"shuffle_window_rows": 16, "interleave_files": 3}),
    ("rows", {"cache": "memory"}),
    ("packed", {}),
    ("packed", {"shuffle_window_rows": 24}),
    ("packed", {"cache": "memory", "shuffle_window_rows": 24}),
    ("images", {}),
    ("images", {"shuffle_window_rows": 7}),
    ("images", {"cache": "memory"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "options"), WAYS)
def test_every_pass_is_exact_and_goes_on_from_any_step(make_input, kind, options):
    begun = InputStart()
    batches = rows_of(make_input(kind, start=begun, **options), 31)
    rows = flat(batches)
    passes = [rows[:ROWS], rows[ROWS : 2 * ROWS], rows[2 * ROWS : 3 * ROWS]]
    assert [sorted(numbers) for numbers in passes] == [list(range(ROWS))] * 3
    assert passes[0] != passes[1] != passes[2]
    for step in (1, 11, 25):
        start = InputStart(step, begun.seed, begun.order)
        assert rows_of(make_input(kind, start=start, **options), 31 - step) == batches[step:]


@pytest.mark.parametrize("kind", KINDS)
def test_another_input_than_at_the_start_is_refused(make_input, kind):
    begun = InputStart(seed=1)
    make_input(kind, start=begun, shuffle_window_rows=16)
    message = "the input differs from what was read up to step 4: batch was 10, is 5; restore it"
    with pytest.raises(UsageError, match=message):
        make_input(kind, batch_size=5, start=InputStart(4, 1, begun.order), shuffle_window_rows=16)
    with pytest.raises(UsageError, match=r"step 4: .*window was "):
        make_input(kind, start=InputStart(4, 1, begun.order), shuffle_window_rows=64)


@pytest.mark.parametrize("listed", [True, False])
def test_shards_of_equal_size_with_other_labels_are_refused(tmp_path, data, monkeypatch, listed):
    options, begun = InputOptions(batch_size=10), InputStart(seed=1)

    def train(folder, start):
        directory = data.write_examples(tmp_path / folder)
        source = str(directory)
        if not listed:
            (directory / "manifest.json").unlink()
            (directory / "Split-train/data_tfrecord-00001-of-00004").unlink()  # empty
            for file in (directory / "Split-train").iterdir():
                file.rename(file.with_name(f"rows-{file.name[14:19]}"))
            source = [f"{directory}/Split-train/*"]
        return Input.rows(source, data.spec, options=options).train(start=start)

    train("first", begun)
    train("again", InputStart(4, 1, begun.order))
    turned = conftest.example
    monkeypatch.setattr(conftest, "example", lambda row: turned(8 if row == 7 else row))
    name = "data_tfrecord-00000-of-00004" if listed else "rows-00000"
    message = f"step 4: Split-train/{name} has other content \\(1 of 3 shards\\); restore"
    with pytest.raises(UsageError, match=message):
        train("other", InputStart(4, 1, begun.order))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_shares_are_the_same_on_any_number_of_workers(make_input, kind):
    options = {"shares": 4, "batch_size": 8, "seed": 1, "shuffle_window_rows": 16}

    def steps(workers, count, start=None):
        """The rows of all workers in each step, and the order of the input."""
        parts = []
        for worker in range(workers):
            context = tf.distribute.InputContext(workers, worker, workers)
            begun = InputStart(*start) if start else InputStart()
            batches = make_input(kind, start=begun, input_context=context, **options)
            parts.append(rows_of(batches, count))
        return [flat(step) for step in zip(*parts, strict=True)], begun.order

    expected, order = steps(1, 30)
    assert steps(2, 30)[0] == steps(4, 30)[0] == expected
    assert steps(2, 10, (20, 1, order))[0] == steps(4, 10, (20, 1, order))[0] == expected[20:]
    # 103 rows are 12 whole batches and 7 rows, so a pass ends within the 13th batch.
    rows = flat(expected)
    assert len(set(rows[:96])) == 96
    assert set(rows[:104]) == set(range(ROWS))


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_of_two_workers_goes_on_with_one(make_input, kind):
    begun = [InputStart(seed=1), InputStart(seed=1)]
    parts = [
        rows_of(
            make_input(kind, start=begun[i], input_context=tf.distribute.InputContext(2, i, 2)), 20
        )
        for i in (0, 1)
    ]
    start = InputStart(9, 1, begun[1].order)
    both = [a + b for a, b in zip(*parts, strict=True)]
    assert rows_of(make_input(kind, start=start), 11) == both[9:]


def test_a_number_of_workers_that_does_not_divide_the_shares_is_refused(make_input):
    context = tf.distribute.InputContext(3, 0, 3)
    with pytest.raises(UsageError, match="of 4 shares runs on 1, 2, 4 workers, got 3: start as"):
        make_input("rows", shares=4, seed=1, batch_size=12, input_context=context)
    with pytest.raises(UsageError, match="batch_size must be a multiple of the 4 shares, got 10"):
        make_input("rows", shares=4, seed=1)


def test_several_workers_need_the_same_seed_and_no_cache(make_input):
    context = tf.distribute.InputContext(2, 0, 2)
    with pytest.raises(UsageError, match="2 workers need a seed that is the same for all"):
        make_input("rows", input_context=context)
    with pytest.raises(UsageError, match="cache 'memory' is for one worker, there are 2: use"):
        make_input("rows", cache="memory", seed=1, input_context=context)


ENDS_WHILE_IT_READS = """
import numpy as np
import tensorflow as tf
from penstock.components.trainer.input.common import python_op
source = np.zeros((20_000, 64))
def picked(number):
    return source.take(np.arange(20_000), axis=0)[:, 0] + number
ahead = iter(tf.data.Dataset.range(10**9).map(
    lambda n: python_op(picked, [n], [tf.float64]), num_parallel_calls=4
).prefetch(64))
@tf.function
def take():
    return tf.reduce_sum(next(ahead)[0])
print(float(take()))
"""


@pytest.mark.slow
def test_a_process_ends_while_its_input_works_ahead():
    """With `tf.numpy_function` instead of `python_op`, the process hung at exit in 5 of 6 runs."""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", ENDS_WHILE_IT_READS], capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stdout) == (0, "0.0\n"), done.stderr
