"""The page of promises, whose tests `make test-faults` runs."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs/reliability.md").read_text()
NAMED = set(re.findall(r"`([\w/]+/test_\w+\.py)`", PAGE))


def test_each_test_that_the_page_names_is_there():
    assert len(NAMED) > 40
    assert [name for name in sorted(NAMED) if not (TESTS / name).is_file()] == []


def test_each_test_of_faults_is_named_on_the_page():
    marked = {
        str(file.relative_to(TESTS))
        for file in TESTS.rglob("test_*.py")
        if "pytest.mark.faults" in file.read_text() and file != Path(__file__)
    }
    assert sorted(marked - NAMED) == []
