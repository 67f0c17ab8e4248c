"""Orders of rows: simulated passes with interruptions, and TensorFlow's permutation of a window."""

import itertools
import random

import numpy as np

from penstock.components.readers.order import ROW_BITS, Order, tensorflow_permutation


def windows_of(order, plan):
    """The row numbers in each window of a plan."""
    first = np.concatenate([[0], np.cumsum(order.file_rows)])
    table = order.table(plan.lanes)
    blocks = [
        first[file] + row + np.arange(rows)
        for file, row, rows in zip(table["file"], table["row"], table["rows"], strict=True)
    ]
    rows = np.concatenate([np.zeros(0, int), *blocks])[plan.ahead :]
    return [rows[i : i + order.window] for i in range(0, len(rows), order.window)]


def read(order, start, count):
    """The next `count` rows of a worker after its first `start` rows, as (pass, row)."""
    number, row = order.locate(start) if start else (0, 0)
    plan = order.plan_from(number, row) if row else order.plan(number)
    given = []
    while len(given) < count:
        for place, window in enumerate(windows_of(order, plan)):
            generator = np.random.default_rng([order.seed, number, plan.window + place])
            rows = generator.permutation(window)[0 if place else plan.drop :]
            given += [(number, int(row)) for row in rows]
        number += 1
        plan = order.plan(number)
    return given[:count]


def orders(chance):
    """Orders of random shards: one for each share, the part of the rows that one worker reads."""
    files = chance.randint(1, 7)
    rows = [1 + chance.randint(0, 60), *(chance.randint(0, 60) for _ in range(files - 1))]
    shares = min(chance.choice([1, 1, 2, 3]), sum(rows))
    made = {
        "seed": chance.randint(0, 2**60),
        "file_bytes": [10 * count + 3 for count in rows],
        "lanes": chance.randint(1, files),
        "block_rows": chance.randint(1, 9),
        "window": chance.randint(1, 30),
        "file_rows": rows,
        "shares": shares,
    }
    return [Order(**made, share=share) for share in range(shares)]


def test_each_pass_has_each_row_once_over_all_shares_after_any_interruptions():
    chance = random.Random(1)
    for _ in range(100):
        given = []
        shares = orders(chance)
        total = sum(shares[0].file_rows)
        for order in shares:
            # Together, the shares read at least 4 passes: `count` is rounded up, because one share
            # may have one row more than another.
            count = -(-4 * total // len(shares))
            stops = sorted(chance.choices(range(count), k=chance.randint(0, 4)))
            cuts = [0, *stops, count]
            parts = [read(order, a, b - a) for a, b in itertools.pairwise(cuts)]
            rows = list(itertools.chain(*parts))
            assert rows == read(order, 0, count)
            given += rows
        for number in range(4):
            rows = [row for passed, row in given if passed == number]
            assert sorted(rows) == list(range(total)), shares[0]


def test_permutation_of_a_window_without_tensorflow_equals_that_of_the_training_input():
    import tensorflow as tf

    from penstock.components.trainer.input.passes import seeded_order

    for seed, number, window, rows in ((1, 0, 0, 5), (-(2**60) - 3, 7, 2**33, 1001)):
        item = tf.constant((number << ROW_BITS) + window, tf.int64)
        expected = seeded_order(rows, tf.stack([tf.constant(seed, tf.int64), item]))
        assert (
            tensorflow_permutation(seed, number, window, rows).tolist() == expected.numpy().tolist()
        )


def test_a_pass_begins_without_the_number_of_rows():
    known = Order(7, (30, 10, 0, 20), lanes=2, block_rows=2, window=8, file_rows=(6, 2, 0, 4))
    unknown = Order(7, (30, 10, 0, 20), lanes=2, block_rows=2, window=8)
    for number in range(5):
        files, others = (
            [[file for file, _, _ in lane] for lane in order.plan(number).lanes]
            for order in (known, unknown)
        )
        assert files == others
