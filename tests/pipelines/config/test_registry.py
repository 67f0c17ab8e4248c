import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.config.registry import HERE, find_pipeline

PIPELINE = "def create_pipeline():\n    return {name!r}\n"


def package(folder, name):
    (folder / name).mkdir()
    (folder / name / "__init__.py").touch()
    (folder / name / "pipeline.py").write_text(PIPELINE.format(name=name))


def test_find_pipeline_in_the_working_directory(tmp_path, monkeypatch):
    package(tmp_path, "mine_only")
    (tmp_path / "tests").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_pipeline(HERE, {}).make() == "mine_only"


def test_find_pipeline_none_or_several_packages_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"no pipeline named, and in .* there is none; name"):
        find_pipeline(HERE, {})
    package(tmp_path, "one")
    package(tmp_path, "two")
    with pytest.raises(UsageError, match="several packages have one: one, two; name one of taxi"):
        find_pipeline(HERE, {})


def test_a_config_without_defaults_is_not_the_one_of_a_pipeline(tmp_path, monkeypatch):
    package(tmp_path, "with_other_config")
    (tmp_path / "with_other_config" / "config.py").write_text(
        "from dataclasses import dataclass\n\n@dataclass\nclass Config:\n    needed: int\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_pipeline(HERE, {}).make() == "with_other_config"
