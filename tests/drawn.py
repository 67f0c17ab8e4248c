"""Hypothesis settings for tests that call slow libraries, and a mark for slow cases of tests."""

import hypothesis
import pytest


def drawn():
    """Settings with the same twenty draws each time, which are not shrunk after a failure."""
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
