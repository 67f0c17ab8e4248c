"""Settings of generated comparisons with slow libraries, and a mark for slow cases of tests."""

import hypothesis
import pytest


def drawn():
    """Settings of an inner test: the same twenty draws each time, not shrunk after a failure."""
    return hypothesis.settings(
        max_examples=20,
        deadline=None,
        derandomize=True,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=[*hypothesis.HealthCheck],
    )


def slow(*values):
    """A case of a parametrized test that only `make test-all` runs."""
    return pytest.param(*values, marks=pytest.mark.slow)
