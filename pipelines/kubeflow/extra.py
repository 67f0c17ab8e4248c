"""The extra that has kfp, asked for in one line where it is missing."""

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.components.errors import UsageError


@contextmanager
def needs_kubeflow() -> Iterator[None]:
    """Around imports of what needs kfp: a UsageError if the extra is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(
            f"no module {error.name!r}; install the extra: pip install 'penstock[kubeflow]'"
        ) from error
