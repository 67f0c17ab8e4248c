"""Generated comparisons with slow libraries: a handful of draws, or twenty in a slow test."""

import hypothesis
import pytest


def few_or_many(few):
    """Runs a test with `draws`, the number of its examples."""
    return pytest.mark.parametrize("draws", [few, slow(20)], ids=lambda draws: f"{draws} draws")


def drawn(draws):
    """Settings of an inner test: the same draws each time, and none smaller after a failure."""
    return hypothesis.settings(
        max_examples=draws,
        deadline=None,
        derandomize=True,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=[*hypothesis.HealthCheck],
    )


def slow(*values):
    """A case of a table that only `make test-all` runs."""
    return pytest.param(*values, marks=pytest.mark.slow)
