import traceback

import pytest

from penstock.components.errors import DataError, UsageError
from penstock.pipelines.terminal.failures import reason


def raised(error, cause=None):
    try:
        raise error from cause
    except type(error) as caught:
        return caught


def quoted(error):
    """Returns a worker's error in the form in which Beam passes it on."""
    try:
        raise error
    except type(error):
        text = traceback.format_exc().rstrip()
    return RuntimeError(f"{text} [while running 'Ingest/Write-ptransform-7']")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (DataError("a.csv: line 3: short row"), "a.csv: line 3: short row"),
        (raised(RuntimeError("wrapped"), cause=UsageError("bad option")), "bad option"),
        (quoted(DataError("a.csv: line 3: short row")), "a.csv: line 3: short row"),
        (quoted(DataError("unfit:\n  - one\n  - two")), "unfit:\n  - one\n  - two"),
        (ValueError("first\nsecond\n"), "ValueError: second"),
        (quoted(ValueError("odd")), "RuntimeError: ValueError: odd"),
        (MemoryError(), "MemoryError"),
        (
            OSError("{{node}} /a/b.v2; No space left on device\n\tCould not open it. [Op:Write]"),
            "/a/b.v2: No space left on device; free space or inodes there (df -h, df -i), or name "
            "another disk",
        ),
    ],
)
def test_reason(error, text):
    assert reason(error) == text
