"""Compares TFDV's statistics leaf by leaf."""


def leaves(message, prefix=""):
    """Yields (path, value) for each scalar of a proto, and for the length of each list."""
    for field, value in message.ListFields():
        name = f"{prefix}{field.name}"
        if field.label != field.LABEL_REPEATED:
            yield from leaves(value, f"{name}.") if field.message_type else [(name, value)]
        elif field.message_type and field.message_type.GetOptions().map_entry:
            yield from ((f"{name}{{{key}}}", value[key]) for key in sorted(value))
        else:
            yield f"{name}.count", len(value)
            for i, item in enumerate(value):
                one = f"{name}[{i}]"
                yield from leaves(item, f"{one}.") if field.message_type else [(one, item)]


def features(dataset):
    """The leaves of each feature of a slice, by the feature's path."""
    return {tuple(f.path.step) or f.name: dict(leaves(f)) for f in dataset.features}


def crosses(dataset):
    return sorted(str(cross) for cross in dataset.cross_features)


def assert_equal_statistics(ours, theirs, *, relative=1e-9):
    """Every leaf is equal, except for the rounding of floats and TFDV's epsilon for quantiles."""
    mine, others = ({d.name: d for d in found.datasets} for found in (ours, theirs))
    assert mine.keys() == others.keys()
    for name, other in others.items():
        assert mine[name].num_examples == other.num_examples
        assert abs(mine[name].weighted_num_examples - other.weighted_num_examples) <= (
            relative * other.weighted_num_examples
        )
        assert len(mine[name].cross_features) == len(other.cross_features)
        found, expected = features(mine[name]), features(other)
        assert found.keys() == expected.keys()
        for path, wanted in expected.items():
            _assert_equal_leaves(found[path], wanted, f"{name} {path}", relative)


def _assert_equal_leaves(found, wanted, where, relative):
    assert found.keys() == wanted.keys(), where
    low, high = wanted.get("num_stats.min", 0.0), wanted.get("num_stats.max", 0.0)
    rows = wanted.get("num_stats.common_stats.tot_num_values", 1)
    for key, value in wanted.items():
        got = found[key]
        if got == value or (got != got and value != value):
            continue
        assert isinstance(value, float), f"{where} {key}: {got} for {value}"
        slack = relative * max(abs(got), abs(value))
        if "histogram" in key and key.endswith(("low_value", "high_value")):
            slack = max(slack, 0.01 * (high - low))
        elif "num_stats.histograms" in key and key.endswith("sample_count"):
            slack = max(slack, 0.01 * rows)
        assert abs(got - value) <= slack, f"{where} {key}: {got} for {value}"
