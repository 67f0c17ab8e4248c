import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2

from penstock.components.gates.options import RetrainOptions
from penstock.components.gates.retrain_gate import decide


def statistics(rows, unlabelled=0, **pay):
    """Statistics of `train`: `pay` has these counts of texts; `unlabelled` rows lack a label."""
    found = statistics_pb2.DatasetFeatureStatistics(num_examples=rows)
    words = found.features.add(name="pay", type=statistics_pb2.FeatureNameStatistics.STRING)
    words.string_stats.common_stats.num_non_missing = rows
    words.string_stats.common_stats.tot_num_values = rows
    for word, count in pay.items():
        words.string_stats.rank_histogram.buckets.add(label=word, sample_count=count)
    label = found.features.add(name="tips", type=statistics_pb2.FeatureNameStatistics.FLOAT)
    label.num_stats.common_stats.num_non_missing = rows - unlabelled
    return {"train": found}


BEFORE = statistics(100, cash=50, card=50)
NOW = statistics(140, unlabelled=10, cash=98, card=42)


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({}, (True, "no limit is set")),
        ({"drift": 0.1}, (True, "drift 0.20 of 'pay' in split 'train', limit 0.1")),
        ({"drift": 0.3}, (False, "drift 0.20 of 'pay' in split 'train', limit 0.3")),
        (
            {"drift": 0.1, "ignored": ("pay", "tips")},
            (False, "drift 0.00 without a feature to compare, limit 0.1"),
        ),
        ({"new_rows": 30, "labels": ("tips",)}, (True, "30 new labelled rows, limit 30")),
        ({"new_rows": 31, "labels": ("tips",)}, (False, "30 new labelled rows, limit 31")),
        (
            {"new_rows": 131, "labels": ("tips",), "by_span": True},
            (False, "130 new labelled rows, limit 131"),
        ),
        (
            {"age_days": 2.5},
            (True, "2.5 days since the last blessed model's data, limit 2.5"),
        ),
        ({"drift": 0.3, "new_rows": 10}, (True, "40 new labelled rows, limit 10")),
        (
            {"drift": 0.3, "age_days": 3},
            (
                False,
                "drift 0.20 of 'pay' in split 'train', limit 0.3; "
                "2.5 days since the last blessed model's data, limit 3",
            ),
        ),
    ],
)
def test_answer_and_reason(options, answer):
    assert decide(NOW, BEFORE, RetrainOptions(**options), age_days=2.5) == answer


def test_options_are_set_by_any_limit():
    limits = ({}, {"drift": 0.5}, {"new_rows": 1}, {"age_days": 0.5})
    assert [RetrainOptions(**limit).is_set for limit in limits] == [False, True, True, True]
