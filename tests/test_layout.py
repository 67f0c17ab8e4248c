import ast
import subprocess
import sys
from pathlib import Path

import pytest
from setuptools.config.pyprojecttoml import read_configuration

ROOT = Path(__file__).parents[1]
ROOMS = ("benchmarks", "components", "pipelines", "schemas")

# Of each folder or file: what it must not import at any depth of its own code.
FORBIDDEN = {
    "components": ("penstock.pipelines", "penstock.schemas"),
    "components/tfrecord": ("tfx", "tfx_bsl", "apache_beam", "penstock.components.sources",
                            "penstock.components.example_gen", "penstock.components.trainer"),
    "components/sources": ("tensorflow", "tfx", "apache_beam", "penstock.components.example_gen"),
    "components/trainer": ("apache_beam", "penstock.components.sources"),
    "components/tfrecord/sharding.py": ("tensorflow", "numpy", "pyarrow"),
    "components/tfrecord/encoder.py": ("tensorflow",),
    "components/tfrecord/writer.py": ("tensorflow",),
    "components/example_gen/ingest.py": ("tensorflow", "tfx"),
    "schemas": ("penstock.components", "penstock.pipelines"),
}  # fmt: skip


def modules(path):
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_the_package_list_is_the_tree():
    setuptools = read_configuration(ROOT / "pyproject.toml")["tool"]["setuptools"]
    tree = {
        "penstock." + ".".join(file.parent.relative_to(ROOT).parts)
        for room in ROOMS
        for file in (ROOT / room).rglob("__init__.py")
    }
    assert set(setuptools["packages"]) == tree
    assert setuptools["package-dir"] == {f"penstock.{room}": room for room in ROOMS}


@pytest.mark.parametrize("place", sorted(FORBIDDEN))
def test_rooms_are_entered_in_one_direction(place):
    broken = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(ROOT / place)
        for name in imports(path)
        for wall in FORBIDDEN[place]
        if name == wall or name.startswith(wall + ".")
    ]
    assert broken == []


def test_configs_import_no_tensorflow():
    for path in (ROOT / "pipelines").rglob("config.py"):
        assert not [n for n in imports(path) if n.split(".")[0] in ("tensorflow", "keras", "tfx")]


def loaded_by(module):
    code = f"import {module}, sys; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout.split()
    )


def test_the_command_line_loads_nothing_that_help_does_not_need():
    heavy = {"tensorflow", "tfx", "apache_beam", "pyarrow", "numpy", "keras", "kfp"}
    assert loaded_by("penstock.pipelines.cli") & heavy == set()


def test_ingest_loads_no_tensorflow():
    assert loaded_by("penstock.components.example_gen.ingest") & {"tensorflow", "tfx"} == set()


def test_files_that_are_no_python_are_package_data():
    setuptools = read_configuration(ROOT / "pyproject.toml")["tool"]["setuptools"]
    shipped = {
        file
        for package, patterns in setuptools["package-data"].items()
        for pattern in patterns
        for file in (ROOT / package.removeprefix("penstock.").replace(".", "/")).glob(pattern)
    }
    there = {
        file
        for room in ROOMS
        for file in (ROOT / room).rglob("*")
        if file.is_file() and file.suffix not in (".py", ".pyc")
    }
    assert there == shipped
