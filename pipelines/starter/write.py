"""Writes the package of a pipeline from templates and the properties of the data."""

import importlib.util
import json
import keyword
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from penstock.components.errors import UsageError
from penstock.components.files.commit import attempt
from penstock.components.trainer.served_columns import MISSING_INT
from penstock.pipelines.starter.look import ImagesLook, TableLook, schema_text, source_options
from penstock.pipelines.starter.options import StarterOptions
from penstock.pipelines.starter.plan import example_request, plan_images, plan_table

_MODULES = ("config", "features", "model", "preprocessing")
_AROUND = {
    "README.md": "README.md",
    "gitignore": ".gitignore",
    "pytest.ini": "pytest.ini",
    "Dockerfile": "Dockerfile",
    "ci.yml": ".github/workflows/test.yml",
    "test_pipeline.py": "tests/test_pipeline.py",
}
_WIDTH = 84


def package_name(folder: Path) -> str:
    name = re.sub(r"\W", "_", folder.name, flags=re.ASCII).lower()
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"{folder.name!r} is no name for a Python package; begin with a letter")
    if importlib.util.find_spec(name) is not None:
        raise UsageError(f"a Python module {name!r} is there already; choose another name")
    return name


def write_starter(
    folder: Path, look: TableLook | ImagesLook, data: str, options: StarterOptions, *, package: str
) -> list[Path]:
    """Writes the package `package` into a new folder, which appears whole or not at all."""
    texts = render_starter(folder.name, package, look, data, options)
    with attempt(folder, overwrite=None) as made:
        for name, text in texts.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_text(text, encoding="utf-8")
    return [Path(name) for name in texts]


def render_starter(
    name: str, package: str, look: TableLook | ImagesLook, data: str, options: StarterOptions
) -> dict[str, str]:
    """Returns the text of each file by its path in the folder called `name`.

    Names from the data (columns, classes, files) become escaped literals.
    """
    images = isinstance(look, ImagesLook)
    data_name = Path(data).name
    values: dict[str, Any] = {
        "name": name,
        "package": package,
        "look": look,
        "images": images,
        "source": source_options(look, options),
        "group": options.group,
        "time": options.time,
        "data": data,
        "data_name": data_name,
        "missing_int": MISSING_INT,
        "plan": plan_images(look, data_name)
        if isinstance(look, ImagesLook)
        else plan_table(look, data_name),
        "request": _shell(example_request(look)),
    }
    kind = "images" if images else "table"
    files = {f"{package}/{name}": f"shared/{name}" for name in ("__init__.py", "pipeline.py")}
    files |= {f"{package}/{module}.py": f"{kind}/{module}.py" for module in _MODULES}
    files |= {target: f"shared/{template}" for template, target in _AROUND.items()}
    texts = {
        file: _ENVIRONMENT.get_template(f"{template}.j2").render(values)
        for file, template in files.items()
    }
    if isinstance(look, TableLook):
        texts[f"{package}/schema.pbtxt"] = schema_text(look)
    return texts


def _python(value: Any) -> str:
    """Returns a value as a Python literal; a long one has one line per item.

    Names from the data get into the package's Python files only through this function.
    """
    if isinstance(value, str):
        # `repr` escapes characters that do not print: line ends, lone surrogates, text direction
        # marks.
        return json.dumps(value, ensure_ascii=False) if value.isprintable() else repr(value)
    if isinstance(value, dict):
        return _listed("{", [f"{_python(k)}: {_python(item)}" for k, item in value.items()], "}")
    if isinstance(value, Sequence):
        items = [_python(item) for item in value]
        return f"({items[0]},)" if len(items) == 1 else _listed("(", items, ")")
    return repr(value)


def _listed(begin: str, items: Sequence[str], end: str) -> str:
    line = f"{begin}{', '.join(items)}{end}"
    return (
        line
        if len(line) <= _WIDTH
        else "\n    ".join([begin, *(f"{i}," for i in items)]) + f"\n{end}"
    )


def _markdown(text: str) -> str:
    line = text if text.isprintable() else repr(text)[1:-1]
    return re.sub(r"([^\w\s.,])", r"\\\1", line)


def _shell(request: object) -> str:
    text = json.dumps(request, ensure_ascii=False)
    return (text if text.isprintable() else json.dumps(request)).replace("'", "'\\''")


_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters.update(py=_python, comma="{:,}".format, markdown=_markdown)
