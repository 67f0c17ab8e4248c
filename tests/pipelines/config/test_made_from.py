import importlib
import sys

import pytest

from penstock.pipelines.config.made_from import watch_making


@pytest.fixture
def made_by(tmp_path, monkeypatch):
    """Runs a module of the user's, and says what it was made from."""
    monkeypatch.syspath_prepend(tmp_path)

    def run(code):
        (tmp_path / "my_own.py").write_text(code)
        with watch_making() as made:
            importlib.import_module("my_own")
        return made

    yield run
    for name in ("my_own", "my_other"):
        sys.modules.pop(name, None)


def test_modules_and_files_that_are_read_are_known(tmp_path, made_by):
    (tmp_path / "my_other.py").write_text("")
    (tmp_path / "steps.json").write_text("1")
    made = made_by(
        "import json, my_other\n"
        "from pathlib import Path\n"
        "from penstock import Target\n"
        "here = Path(__file__)\n"
        "json.loads(here.with_name('steps.json').read_text())\n"
        "here.with_name('written').write_text('')\n"
        "def create_pipeline(config): return config.pack, config.ingest\n"
        "try: open(here.with_name('lacking'))\n"
        "except FileNotFoundError: pass\n"
    )
    assert made.is_settled
    mine = {file.removeprefix(str(tmp_path)) for file in made.files if str(tmp_path) in file}
    assert mine == {"/", "/my_own.py", "/my_other.py", "/steps.json", "/lacking"}


@pytest.mark.parametrize(
    "code",
    [
        "import datetime",
        "import os.path",
        "from random import random",
        "def f():\n  import time",
        "import tensorflow as tf",
        "from pathlib import Path\nPath('x').exists()",
        "from pathlib import Path\n[*Path('.').glob('*')]",
        "from tfx.dsl.io import fileio",
        "__import__('time')",
        "from penstock import inspect",
        "import penstock\npenstock.run",
    ],
)
def test_what_may_see_more_than_files_is_in_doubt(made_by, code):
    assert not made_by(code).is_settled
