import sys

import pytest

from penstock.pipelines.cli import deferred_imports


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose modules note that they ran, in `sys.ran`, all of them deferred."""
    folder = tmp_path / "seldom"
    folder.mkdir()
    files = {
        "__init__.py": "VALUE = 1\nfrom seldom.part import OTHER\n",
        "part.py": "OTHER = 2\n",
        "broken.py": "import no_such_module\n",
    }
    for name, code in files.items():
        (folder / name).write_text(f"import sys; sys.ran.append({name!r})\n{code}")
    names = frozenset({"seldom", "seldom.part", "seldom.broken", "seldom.missing"})
    monkeypatch.setattr(deferred_imports, "_DEFERRED", names)
    monkeypatch.setattr(sys, "meta_path", [deferred_imports._Finder, *sys.meta_path])
    monkeypatch.setattr(sys, "ran", [], raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    yield sys.ran
    for name in names:
        sys.modules.pop(name, None)


def test_deferred_module_runs_once_on_first_use(package):
    import seldom

    assert package == []
    assert (seldom.VALUE, seldom.VALUE) == (1, 1)
    assert package == ["__init__.py", "part.py"]


def test_deferred_submodule_imported_from_its_package_does_not_run(package):
    from seldom import part

    assert package == []
    assert part.OTHER == 2
    assert package == ["__init__.py", "part.py"]


def test_deferred_module_that_cannot_be_found_raises_at_the_import(package):
    with pytest.raises(ModuleNotFoundError, match=r"seldom\.missing"):
        import seldom.missing  # noqa: F401


def test_deferred_module_with_an_error_raises_it_on_first_use(package):
    import seldom.broken

    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        _ = seldom.broken.VALUE
