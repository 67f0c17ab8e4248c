import sys

import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.config import code_digest as digests
from penstock.pipelines.config.code_digest import code_digest


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of a user's, whose modules would fail if anything ran them."""
    folder = tmp_path / "shop_digest"
    (folder / "deep").mkdir(parents=True)
    for name in ("__init__.py", "deep/__init__.py", "deep/names.py"):
        (folder / name).touch()
    (folder / "preprocessing.py").write_text("raise RuntimeError\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.startswith("shop_digest")]:
        del sys.modules[name]


FUNCTION = "shop_digest.preprocessing.preprocessing_fn"


@pytest.mark.parametrize("module", ["preprocessing.py", "deep/__init__.py", "deep/names.py"])
def test_code_digest_changes_with_a_line_of_the_package(package, module):
    before = code_digest(FUNCTION)
    file = package / module
    file.write_text(file.read_text() + "# changed\n")
    assert code_digest(FUNCTION) != before


def test_code_digest_ignores_dates_other_packages_and_data(package):
    before = code_digest(FUNCTION)
    (package / "deep/names.py").write_text("")
    (package / "notes.txt").touch()
    (package.parent / "other.py").touch()
    assert code_digest(FUNCTION) == before
    assert "shop_digest.preprocessing" not in sys.modules


def test_code_digest_covers_penstock_as_a_whole(package, monkeypatch):
    own = code_digest("penstock.pipelines.taxi.model.run_fn")
    assert code_digest("penstock.pipelines.digits.model.run_fn") == own
    before = code_digest(FUNCTION)
    monkeypatch.setattr(digests, "_penstock", lambda: b"another version")
    assert len({own, before, code_digest(FUNCTION)}) == 3


@pytest.mark.parametrize("module", ["nowhere", "shop_digest.nowhere"])
def test_code_digest_unknown_module_is_named(package, module):
    with pytest.raises(UsageError, match=rf"no module '{module}'; is its folder on the Python"):
        code_digest(f"{module}.preprocessing_fn")


def test_code_digest_of_a_module_without_a_package_covers_its_folder(tmp_path, monkeypatch):
    (tmp_path / "flat_preprocessing.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    before = code_digest("flat_preprocessing.preprocessing_fn")
    (tmp_path / "flat_features.py").write_text("SIZE = 4\n")
    assert code_digest("flat_preprocessing.preprocessing_fn") != before


def test_code_digest_follows_linked_folders(package, tmp_path_factory):
    real = tmp_path_factory.mktemp("real")
    (real / "part.py").touch()
    (package / "linked").symlink_to(real)
    before = code_digest(FUNCTION)
    (real / "part.py").write_text("x = 1\n")
    assert code_digest(FUNCTION) != before
