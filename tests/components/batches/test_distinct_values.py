"""Counts of distinct values: exact up to a bound, estimates beyond."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
import tensorflow_data_validation as tfdv

from penstock.components.batches import distinct_values
from penstock.components.batches.distinct_values import DistinctValues

ROWS, VALUES = 40_000, 3_000


def batches(weighted):
    """Text values `w<n>`; those of n < 10 are a tenth of the rows each half of the time."""
    rng = np.random.default_rng(4)
    for _ in range(4):
        codes = np.where(rng.random(ROWS // 4) < 0.5, rng.integers(0, 10, ROWS // 4), 0)
        codes = np.where(codes == 0, rng.integers(0, VALUES, ROWS // 4), codes)
        words = pa.array([[b"w%d" % code] for code in codes], pa.large_list(pa.large_binary()))
        weight = pa.array([[2.0]] * len(words), pa.large_list(pa.float32()))
        columns = {"word": words, **({"weight": weight} if weighted else {})}
        yield pa.RecordBatch.from_arrays([*columns.values()], [*columns])


def counted(generator, weighted):
    """The proto of batches that are accumulated apart, pickled and merged."""
    parts = []
    for batch in batches(weighted):
        part = generator.compact(generator.add_input(generator.create_accumulator(), batch))
        parts.append(pickle.loads(pickle.dumps(part)))
    merged = generator.merge_accumulators(parts)
    [feature] = generator.extract_output(merged).features
    return feature.string_stats, generator.estimated(merged)


@pytest.mark.parametrize("bound", ["MAX_EXACT_VALUES", "MAX_EXACT_BYTES"])
@pytest.mark.parametrize("weighted", [False, True])
def test_more_values_than_the_bound_are_estimated_and_named(bound, weighted, monkeypatch):
    options = tfdv.StatsOptions(weight_feature="weight" if weighted else None)
    exact, none = counted(DistinctValues(options), weighted)
    monkeypatch.setattr(distinct_values, bound, 2_500)
    estimated, names = counted(DistinctValues(options), weighted)
    assert (none, names) == (set(), {"word"})
    assert 2_900 < exact.unique <= VALUES
    assert estimated.unique == pytest.approx(exact.unique, rel=0.08)  # five standard deviations
    assert [v.value for v in estimated.top_values[:9]] == [v.value for v in exact.top_values[:9]]
    got, wanted = (found.weighted_string_stats.top_values for found in (estimated, exact))
    assert len(got) == len(wanted) == (20 if weighted else 0)
    for mine, other in zip(got[:9], wanted[:9], strict=True):
        assert (mine.value, mine.frequency) == (other.value, pytest.approx(other.frequency))


def test_an_exact_and_an_estimated_part_are_merged_to_an_estimate(monkeypatch):
    generator = DistinctValues(tfdv.StatsOptions())
    few, many, *_ = batches(weighted=False)
    exact = generator.add_input({}, few.slice(0, 100))
    monkeypatch.setattr(distinct_values, "MAX_EXACT_VALUES", 500)
    estimated = generator.add_input({}, many)
    for parts in ([exact, estimated], [estimated, exact]):
        merged = generator.merge_accumulators(pickle.loads(pickle.dumps(parts)))
        assert generator.estimated(merged) == {"word"}
