"""Changes that the publishing workflow makes to README and pyproject with `.ci/publishing`."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOME = "https://code.example/us/penstock"


@pytest.fixture
def published(tmp_path):
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    script = [sys.executable, ROOT / ".ci/publishing", HOME, "v0.1.0"]
    subprocess.run(script, cwd=tmp_path, check=True)
    return tmp_path


def test_each_link_of_the_published_readme_is_absolute_and_its_file_exists(published):
    targets = re.findall(r"\]\(([^)\s]+)\)", (published / "README.md").read_text())
    assert f"{HOME}/blob/v0.1.0/docs/sources.md" in targets
    assert f"{HOME}/raw/v0.1.0/docs/images/report.png" in targets
    for target in targets:
        if target.startswith("#"):
            continue
        assert target.startswith("https://"), target
        if target.startswith(HOME):
            assert (ROOT / target.split("/v0.1.0/")[1]).exists(), target


def test_the_published_package_has_urls(published):
    text = (published / "pyproject.toml").read_text()
    assert f'[project.urls]\nSource = "{HOME}"\n' in text
    assert text.count("[project.scripts]") == 1
