import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from setuptools import find_packages
from setuptools.config.pyprojecttoml import read_configuration

from penstock.pipelines.cli.main import app

ROOT = Path(__file__).parents[1]
FOLDERS = ("components", "pipelines", "schemas")
# Folders in the order of the table of CONTRIBUTING.md; a room imports only rooms above it.
ROOMS = re.findall(r"^\| `([a-z/_]+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)

# Modules that a folder or file must not import, in addition to the table's rules.
FORBIDDEN = {
    "components/tfrecord": ("tfx", "tfx_bsl", "apache_beam"),
    "components/sources": ("tensorflow", "tfx", "apache_beam"),
    "components/trainer": ("apache_beam", "penstock.components.sources"),
    "components/tfrecord/sharding.py": ("tensorflow", "numpy", "pyarrow"),
    "components/tfrecord/encoder.py": ("tensorflow",),
    "components/tfrecord/writer.py": ("tensorflow",),
    "components/example_gen/ingest.py": ("tensorflow", "tfx"),
}


def modules(place):
    path = ROOT / place
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(path):
    """The room of a file or of a module's path: the longest match in the table."""
    rooms = [room for room in ROOMS if path.startswith(f"{room}/")]
    assert rooms, f"{path} is in no room: CONTRIBUTING.md has a row for each"
    return max(rooms, key=len)


def test_the_table_lists_every_room():
    folders = {
        str(path.parent.relative_to(ROOT))
        for folder in FOLDERS
        for path in [ROOT / folder / "__init__.py", *(ROOT / folder).glob("*/__init__.py")]
    }
    # `pipelines/` itself contains no code, so the table has no row for it.
    wrong = (folders - {"pipelines"}) ^ (set(ROOMS) - {"benchmarks"})
    assert wrong == set(), "the table of CONTRIBUTING.md has a row for each folder, and no other"


def test_a_room_imports_only_rooms_above_it():
    broken = []
    for path in sorted(p for top in (*FOLDERS, "benchmarks") for p in (ROOT / top).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name == "pipelines/__init__.py":
            continue
        for module in imports(path):
            if not module.startswith(tuple(f"penstock.{top}." for top in FOLDERS)):
                continue
            room = room_of(name)
            other = room_of(module.removeprefix("penstock.").replace(".", "/") + "/")
            if ROOMS.index(other) > ROOMS.index(room):
                broken.append(f"{name} imports {module}: {other} is below {room}")
    assert broken == [], "a room imports only rooms above it in the table of CONTRIBUTING.md"


@pytest.mark.parametrize("place", sorted(FORBIDDEN))
def test_what_else_a_room_does_not_import(place):
    broken = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(place)
        for name in imports(path)
        for wall in FORBIDDEN[place]
        if name == wall or name.startswith(wall + ".")
    }
    assert broken == set()


def test_the_folder_of_the_package_links_to_the_rooms():
    links = {
        path.name: path.readlink() for path in (ROOT / "penstock").iterdir() if path.is_symlink()
    }
    assert links == {top: Path("..", top) for top in (*FOLDERS, "benchmarks")}


def test_the_wheel_holds_every_package_but_the_benchmarks():
    setuptools = read_configuration(ROOT / "pyproject.toml")["tool"]["setuptools"]
    tree = {
        "penstock." + ".".join(file.parent.relative_to(ROOT).parts)
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("*.py")
    }
    lacking = "a folder without an __init__.py is not in the wheel"
    assert set(setuptools["packages"]) == tree | {"penstock"}, lacking
    assert "penstock.benchmarks" in find_packages(str(ROOT))


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


def test_every_file_of_a_command_is_registered():
    folder = ROOT / "pipelines/cli"
    command = re.compile(r"^(def command\(|command = |app = )", re.MULTILINE)
    files = {path.stem for path in folder.glob("*.py") if command.search(path.read_text())}
    registered = typer.main.get_command(app).commands.keys()
    assert files - {"main"} - registered == set(), "pipelines/cli/main.py registers every command"


def test_the_command_line_loads_nothing_that_help_does_not_need():
    heavy = {"tensorflow", "tfx", "apache_beam", "pyarrow", "numpy", "keras", "kfp"}
    assert loaded_by("penstock.pipelines.cli.main") & heavy == set()


def test_ingest_loads_no_tensorflow():
    assert loaded_by("penstock.components.example_gen.ingest") & {"tensorflow", "tfx"} == set()


def test_files_that_are_no_python_are_package_data():
    setuptools = read_configuration(ROOT / "pyproject.toml")["tool"]["setuptools"]
    shipped = {
        file
        for package, patterns in setuptools["package-data"].items()
        for pattern in patterns
        for file in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    there = {
        ROOT / "penstock" / file.relative_to(ROOT)
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and file.suffix not in (".py", ".pyc")
    }
    assert there | {ROOT / "penstock/py.typed", *(ROOT / "penstock").glob("*.pyi")} == shipped


def test_no_text_has_marks_of_a_merge_conflict():
    folders = (*FOLDERS, "benchmarks", "docs", "k8s", "tests")
    texts = [*ROOT.glob("*.md"), *(path for name in folders for path in (ROOT / name).rglob("*"))]
    marks = re.compile(rb"^(<{7}|>{7}) ", re.MULTILINE)
    assert len(texts) > 500
    assert not [path for path in texts if path.is_file() and marks.search(path.read_bytes())]
