"""The page of promises and the tests that it names."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs/reliability.md").read_text()
NAMED = set(re.findall(r"`([\w/]+/test_\w+\.py)`", PAGE))


def test_each_test_that_the_page_names_is_there():
    assert len(NAMED) > 40
    assert [name for name in sorted(NAMED) if not (TESTS / name).is_file()] == []


def test_each_file_of_faults_is_named_on_the_page():
    files = {str(file.relative_to(TESTS)) for file in TESTS.glob("faults/test_*.py")}
    assert sorted(files - NAMED - {"faults/test_page.py"}) == []
