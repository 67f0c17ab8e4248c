import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.components.tfrecord.sharding import (
    MIB,
    MIN_SHARD_BYTES,
    READER_PARALLELISM,
    TARGET_SHARD_BYTES,
    ShardOptions,
    ShardPlan,
    plan_shards,
    shard_name,
)

SIZES = st.integers(0, 10**14)
HOSTS = st.integers(1, 100)

ROWS = 10**9


@pytest.mark.parametrize(
    ("mebibytes", "hosts", "shards", "reason"),
    [
        (0, 1, 1, "for about 0.0 MiB: less than 10 MiB are read at once"),
        (9.9, 5, 2, "for about 9.9 MiB: less than 10 MiB are read at once"),
        (10, 1, 8, "for about 10.0 MiB: the reader interleaves 8 files"),
        (100, 1, 10, ": 10 for each of 1 reading host, at least 10 MiB a shard"),
        (400, 16, 48, "at least 10 MiB a shard, rounded up to a multiple of 16 reading hosts"),
        (30e9 / MIB, 8, 192, ": 150 MiB a shard, rounded up to a multiple of 8 reading hosts"),
        (10, 3, 9, "interleaves 8 files, rounded up to a multiple of 3 reading hosts"),
        (3000, 1, 20, "for about 3000.0 MiB: 150 MiB a shard"),
        (3001, 1, 21, "for about 3001.0 MiB: 150 MiB a shard"),
    ],
)
def test_plans_and_says_why(mebibytes, hosts, shards, reason):
    size = int(mebibytes * MIB)
    plan = plan_shards(size, ShardOptions(reading_hosts=hosts), rows=ROWS)
    assert plan.shards == shards
    assert plan.reason.startswith(f"{shards} for about ")
    assert plan.reason.endswith(reason)


@given(SIZES, SIZES, HOSTS)
def test_planned_numbers_keep_every_rule(size, more, hosts):
    options = ShardOptions(reading_hosts=hosts)
    shards = plan_shards(size, options, rows=ROWS).shards
    assert shards * TARGET_SHARD_BYTES >= size
    assert plan_shards(size + more, options, rows=ROWS).shards >= shards
    if size < MIN_SHARD_BYTES:
        assert shards <= 2
        return
    assert shards >= READER_PARALLELISM
    assert shards % hosts == 0
    if size >= 10 * hosts * MIN_SHARD_BYTES:
        assert shards >= 10 * hosts
    if shards > max(READER_PARALLELISM, math.ceil(size / TARGET_SHARD_BYTES)) + hosts:
        assert (shards - hosts) * MIN_SHARD_BYTES < size


@given(st.data(), st.integers(1, 10**6), st.sampled_from(["", "GZIP"]))
def test_names_sort_in_order(data, count, compression):
    index = data.draw(st.integers(0, count - 1))
    other = data.draw(st.integers(0, count - 1))
    name = shard_name(index, count, compression=compression)
    suffix = ".gz" if compression else ""
    assert name == f"data_tfrecord-{index:05}-of-{count:05}{suffix}"
    if len(str(count - 1)) <= 5:
        assert (name < shard_name(other, count, compression=compression)) == (index < other)


@pytest.mark.parametrize("index", [-1, 4])
def test_an_index_outside_is_refused(index):
    with pytest.raises(ValueError, match=rf"shard index {index} is not within 0\.\.3"):
        shard_name(index, 4)


def test_no_more_shards_than_rows_or_as_many_as_asked_for():
    assert plan_shards(10**12, ShardOptions(shards=3), rows=ROWS) == ShardPlan(3, "3 as asked for")
    few = plan_shards(20 * MIB, ShardOptions(), rows=3)
    assert few == ShardPlan(3, "3 for about 20.0 MiB: one for each of 3 rows")
    assert plan_shards(0, ShardOptions(), rows=0).shards == 1
    asked = plan_shards(MIB, ShardOptions(shards=1_000_000), rows=3)
    assert asked == ShardPlan(3, "3 of 1000000 asked for, as there are no more rows")
