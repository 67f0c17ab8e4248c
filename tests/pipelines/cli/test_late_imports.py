import importlib
import subprocess
import sys
from types import ModuleType

import pytest

from penstock.pipelines.cli import late_imports


@pytest.fixture
def rare(tmp_path, monkeypatch):
    """A rarely used package that prints a line when its code runs."""
    package = tmp_path / "rare_library"
    package.mkdir()
    (package / "__init__.py").write_text("print('ran')\nanswer = 42\n")
    (package / "part.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(late_imports, "_RARE", {"rare_library"})
    monkeypatch.setattr(sys, "meta_path", [late_imports.LateImports(), *sys.meta_path])
    yield importlib.import_module("rare_library")
    for name in [name for name in sys.modules if name.startswith("rare_library")]:
        del sys.modules[name]


def test_late_import_unused_runs_no_code(rare, tmp_path, capsys):
    assert rare.__file__ == str(tmp_path / "rare_library" / "__init__.py")
    assert capsys.readouterr().out == ""


def test_late_import_of_a_submodule_leaves_the_package_alone(rare, capsys):
    from rare_library import part

    assert part.value == rare.part.value == 7
    assert capsys.readouterr().out == ""


def test_late_import_runs_code_once_at_the_first_name(rare, capsys):
    from rare_library import answer

    assert (answer, rare.answer, type(rare)) == (42, 42, ModuleType)
    assert capsys.readouterr().out == "ran\n"


def test_late_import_used_while_another_thread_runs_the_code_waits(rare, tmp_path):
    # Without a wait, the other thread ends within the timeout, with an AttributeError.
    (tmp_path / "rare_library" / "__init__.py").write_text(
        "import sys, threading\n"
        "this = sys.modules[__name__]\n"
        "found = []\n"
        "other = threading.Thread(target=lambda: found.append(this.answer))\n"
        "other.start()\n"
        "other.join(0.2)\n"
        "answer = 42\n"
    )
    rare.other.join()
    assert rare.found == [42]


def test_late_import_missing_name_is_an_attribute_error(rare):
    with pytest.raises(AttributeError, match="question"):
        _ = rare.question
    assert not hasattr(rare, "__all__")


def test_late_import_missing_library_is_an_import_error(rare, monkeypatch):
    monkeypatch.setattr(late_imports, "_RARE", {"no_such_library"})
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_library")


def test_late_imports_of_libraries_run_by_any_of_their_names():
    code = """
import importlib, sys
from penstock.pipelines.cli.late_imports import LateImports, _RARE
sys.meta_path.insert(0, LateImports())
names = {"nltk.stem", *(name for name in _RARE if not name.startswith(("tfx", "tensorflow")))}
for name in sorted(names, reverse=True):  # submodules before their packages
    assert not hasattr(importlib.import_module(name), "no such name")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
