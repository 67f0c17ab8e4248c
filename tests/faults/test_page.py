"""The page of promises, whose tests `make test-faults` runs."""

import re
import subprocess
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs/reliability.md").read_text()
NAMED = set(re.findall(r"`([\w/]+/test_\w+\.py)`", PAGE))


def test_each_test_that_the_page_names_is_there():
    assert len(NAMED) > 40
    assert [name for name in sorted(NAMED) if not (TESTS / name).is_file()] == []


def test_make_test_faults_runs_each_test_that_the_page_names():
    makefile = (TESTS.parent / "Makefile").read_text()
    [(found, marks)] = re.findall(
        r"^PROMISED := .*shell (grep .*)\)\)\ntest-faults: setup\n\t.*\) (.*) \$\(PROMISED\)$",
        makefile,
        re.M,
    )
    files = subprocess.run(
        found, cwd=TESTS.parent, shell=True, capture_output=True, text=True, check=True
    )
    assert set(files.stdout.split()) == NAMED
    assert marks == '-m "not containers"'


def test_each_test_of_faults_is_named_on_the_page():
    marked = {
        str(file.relative_to(TESTS))
        for file in TESTS.rglob("test_*.py")
        if "pytest.mark.faults" in file.read_text() and file != Path(__file__)
    }
    assert sorted(marked - NAMED) == []
