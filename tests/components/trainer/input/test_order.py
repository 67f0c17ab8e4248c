"""Orders of rows that are reckoned, against simulated trainings that read them."""

import itertools
import random

import numpy as np

from penstock.components.trainer.input.order import Order


def windows_of(order, plan):
    """Numbers of the rows of each window that a plan says to read."""
    first = np.concatenate([[0], np.cumsum(order.file_rows)])
    table = order.table(plan.lanes)
    blocks = [
        first[file] + block * order.block_rows + np.arange(rows)
        for file, block, rows in zip(table["file"], table["block"], table["rows"], strict=True)
    ]
    rows = np.concatenate([np.zeros(0, int), *blocks])[plan.ahead :]
    return [rows[i : i + order.window] for i in range(0, len(rows), order.window)]


def read(order, start, count):
    """`count` rows that a worker gives from its row `start` on, as (pass, row)."""
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
    """The orders of all workers for made shards."""
    files = chance.randint(1, 7)
    rows = [1 + chance.randint(0, 60), *(chance.randint(0, 60) for _ in range(files - 1))]
    workers = chance.choice([1, 1, 2, 3])
    made = {
        "seed": chance.randint(0, 2**60),
        "file_bytes": [10 * count + 3 for count in rows],
        "lanes": chance.randint(1, files),
        "block_rows": chance.randint(1, 9),
        "window": chance.randint(1, 30),
        "file_rows": rows,
        "workers": workers,
    }
    return [Order(**made, worker=worker) for worker in range(workers)]


def test_after_any_interruptions_all_workers_together_give_each_row_once_a_pass():
    chance = random.Random(1)
    for _ in range(100):
        given = []
        workers = orders(chance)
        total = sum(workers[0].file_rows)
        for order in workers:
            # 4 passes, and what a worker may be behind the others: a block.
            count = 4 * total // len(workers) + order.block_rows + 1
            stops = sorted(chance.choices(range(count), k=chance.randint(0, 4)))
            cuts = [0, *stops, count]
            parts = [read(order, a, b - a) for a, b in itertools.pairwise(cuts)]
            rows = list(itertools.chain(*parts))
            assert rows == read(order, 0, count)
            given += rows
        for number in range(4):
            rows = [row for passed, row in given if passed == number]
            assert sorted(rows) == list(range(total)), workers[0]


def test_a_pass_begins_without_the_number_of_rows():
    known = Order(7, (30, 10, 0, 20), lanes=2, block_rows=2, window=8, file_rows=(6, 2, 0, 4))
    unknown = Order(7, (30, 10, 0, 20), lanes=2, block_rows=2, window=8)
    for number in range(5):
        files, others = (
            [[file for file, _, _ in lane] for lane in order.plan(number).lanes]
            for order in (known, unknown)
        )
        assert files == others


def test_the_middle_of_a_pass_is_found_without_reading_what_was_before():
    order = Order(1, (100, 100), lanes=2, block_rows=10, window=20, file_rows=(95, 95))
    plan = order.plan_from(0, 50)
    # Two windows of two blocks are over: of each file two blocks, and ten rows of the third one.
    assert sorted(piece for lane in plan.lanes for piece in lane) == [(0, 2, 8), (1, 2, 8)]
    assert (plan.window, plan.ahead, plan.drop) == (2, 0, 10)


def test_a_window_that_begins_within_a_block_leaves_out_what_is_ahead_of_it():
    order = Order(1, (100,), lanes=1, block_rows=10, window=15, file_rows=(95,))
    plan = order.plan_from(0, 20)
    assert plan.lanes == [[(0, 1, 9)]]
    assert (plan.window, plan.ahead, plan.drop) == (1, 5, 5)
