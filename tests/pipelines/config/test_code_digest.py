import sys

import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.config import code_digest as digests
from penstock.pipelines.config.code_digest import code_digest


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A user's package, whose module `preprocessing` would fail if anything imported it."""
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


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("preprocessing.py", True),
        ("deep/__init__.py", True),
        ("deep/names.py", True),
        ("linked/part.py", True),
        ("notes.txt", False),
        ("../other.py", False),
    ],
)
def test_code_digest_changes_with_modules_of_the_package(file, changes, package, tmp_path_factory):
    (package / "linked").symlink_to(tmp_path_factory.mktemp("real"))
    (package / file).touch()
    before = code_digest(FUNCTION)
    (package / "deep/names.py").touch()  # a date is not content
    assert code_digest(FUNCTION) == before
    (package / file).write_text("# changed\n")
    assert (code_digest(FUNCTION) != before) is changes
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
