import pytest

from penstock.components.errors import UsageError
from penstock.components.gates.options import (
    GateOptions,
    ImageRules,
    KServeOptions,
    RetrainOptions,
    ServingOptions,
)


@pytest.mark.parametrize(
    ("kind", "option", "value", "message"),
    [
        (GateOptions, "max_drift", 1.5, "`max_drift` must be within 0..1, got 1.5"),
        (RetrainOptions, "new_rows", -1, "`new_rows` must be at least 0, got -1"),
        (ImageRules, "min_side_pixels", 0, "`min_side_pixels` must be at least 1, got 0"),
        (ServingOptions, "requests", 0, "`requests` must be at least 1, got 0"),
        (KServeOptions, "canary_percent", 0, "`canary_percent` must be within 1..100, got 0"),
        (KServeOptions, "name", "A b", "kserve.name must be a name in Kubernetes, got 'A b'"),
    ],
)
def test_options_outside_their_range_are_refused(kind, option, value, message):
    with pytest.raises(UsageError) as refused:
        kind(**{option: value})
    assert str(refused.value) == message
