"""Generated comparisons with slow libraries, and cases of tables that are slow."""

import hypothesis
import pytest


def drawn():
    """Settings of an inner test: the same twenty draws each time, none smaller after a failure."""
    return hypothesis.settings(
        max_examples=20,
        deadline=None,
        derandomize=True,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=[*hypothesis.HealthCheck],
    )


def slow(*values):
    """A case of a table that only `make test-all` runs."""
    return pytest.param(*values, marks=pytest.mark.slow)
