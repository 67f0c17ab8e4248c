import sys

import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.config import code_digest as digests
from penstock.pipelines.config.code_digest import code_digest, modules_behind


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of a user's, whose modules would fail if anything ran them."""
    folder = tmp_path / "shop_digest"
    (folder / "deep").mkdir(parents=True)
    files = {
        "__init__.py": "",
        "deep/__init__.py": "",
        "preprocessing.py": "from shop_digest import features\nraise RuntimeError\n",
        "features.py": "from .deep import names as n\nSIZE = 3\n",
        "deep/names.py": "import json\nfrom ..shared import helper\n",
        "shared.py": "def helper():\n    import shop_digest.late\n",
        "late.py": "LATE = 1\n",
        "unrelated.py": "OTHER = 1\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.startswith("shop_digest")]:
        del sys.modules[name]


FUNCTION = "shop_digest.preprocessing.preprocessing_fn"


@pytest.mark.parametrize(
    "module",
    [
        "preprocessing.py",
        "features.py",
        "deep/__init__.py",
        "deep/names.py",
        "shared.py",
        "late.py",
    ],
)
def test_code_digest_changes_with_a_line(package, module):
    before = code_digest(FUNCTION)
    file = package / module
    file.write_text(file.read_text() + "# changed\n")
    assert code_digest(FUNCTION) != before


def test_code_digest_ignores_other_modules_and_dates(package):
    before = code_digest(FUNCTION)
    (package / "unrelated.py").write_text("OTHER = 2\n")
    file = package / "features.py"
    file.write_text(file.read_text())
    assert code_digest(FUNCTION) == before
    assert "shop_digest.preprocessing" not in sys.modules


@pytest.mark.parametrize(
    "use",
    [
        "from penstock.training import train\n",
        "import penstock.training as t\n",
        "def late():\n    import penstock\n",
    ],
)
def test_code_digest_covers_penstock_as_a_whole(package, use, monkeypatch):
    before = code_digest(FUNCTION)
    (package / "features.py").write_text(use)
    assert "penstock" in modules_behind(FUNCTION)
    with_penstock = code_digest(FUNCTION)
    monkeypatch.setattr(digests, "_penstock", lambda: b"another version")
    assert len({before, with_penstock, code_digest(FUNCTION)}) == 3


def test_code_digest_of_penstocks_own_pipeline_is_that_of_penstock():
    behind = modules_behind("penstock.pipelines.taxi.model.run_fn")
    assert list(behind) == ["penstock"]


def test_digest_of_penstock_changes_with_any_of_its_modules(tmp_path, monkeypatch):
    modules = [tmp_path / "components" / "a.py", tmp_path / "pipelines" / "b" / "c.py"]
    for module in modules:
        module.parent.mkdir(parents=True)
        module.write_text("SIZE = 3\n")
    monkeypatch.setattr(digests.penstock, "__file__", str(tmp_path / "__init__.py"))
    found = {digests._penstock.__wrapped__()}
    for module in modules:
        module.write_text("SIZE = 4\n")
        found.add(digests._penstock.__wrapped__())
    assert len(found) == 3


def test_code_digest_unknown_module_is_named():
    with pytest.raises(UsageError, match=r"no module 'nowhere'; is its folder on the Python path"):
        code_digest("nowhere.preprocessing_fn")


def test_code_digest_covers_sibling_modules(tmp_path, monkeypatch):
    (tmp_path / "flat_preprocessing.py").write_text("import json, numpy, flat_features\n")
    features = tmp_path / "flat_features.py"
    features.write_text("SIZE = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    function = "flat_preprocessing.preprocessing_fn"
    assert sorted(modules_behind(function)) == ["flat_features", "flat_preprocessing"]
    before = code_digest(function)
    features.write_text("SIZE = 4\n")
    assert code_digest(function) != before
