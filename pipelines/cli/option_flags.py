"""Makes a command's flags from an options dataclass: one field, one flag.

Help texts come from the dataclass's docstring. A field `null_tokens: tuple[str, ...]` becomes the
repeatable flag `--null-token`; `allow_empty: bool = False` becomes `--allow-empty`; `schema_file`
becomes `--schema`.
"""

import inspect
import re
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import click
import typer
from typer.core import TyperCommand

from penstock.components.errors import PenstockError, UsageError
from penstock.pipelines.config.overrides import name_and_value, yaml_value

# Flags that several commands share.
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change an option, such as train.max_steps=500; repeatable.",
    ),
]
Config = Annotated[Path | None, typer.Option(help="YAML file of options to change.")]
Host = Annotated[
    str,
    typer.Option(
        help="Address of the server. PENSTOCK_KFP_TOKEN holds a bearer token, or "
        "PENSTOCK_KFP_TOKEN_FILE names a file with one, which may be renewed during --wait."
    ),
]
Namespace = Annotated[
    str | None, typer.Option(help="Your namespace, if the server has several users.")
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace an existing output when the new one is complete."),
]
Root = Annotated[
    str, typer.Option(help="Folder or mysql:// address in which run ids are searched.")
]
ServiceAccount = Annotated[
    str | None, typer.Option(help="Kubernetes account of the run's pods; by default the server's.")
]
SourceOptions = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Option of reading the data, such as delimiter=;, as in penstock ingest; repeatable.",
    ),
]
Spans = Annotated[
    str | None,
    typer.Option(
        metavar="SPAN|FIRST..LAST",
        help="Spans of the data, one run each in order, such as 3..7 or 2026-01-03..2026-01-09; "
        "a range skips the spans that a run has finished.",
    ),
]
LOCAL = "http://localhost:8080"

_PLAIN = re.compile(r"[\w.]+")
_OPTION = re.compile(r"`(\w+(?:=[^`]+)?)`")


class ManyOptions(TyperCommand):
    """A command whose `--help` shows the usual options, and whose `--help-all` shows all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--help-all" in args:
            for option in self.params:
                option.hidden = False  # type: ignore[attr-defined]
            args = ["--help"]
        return super().parse_args(ctx, args)


def with_flags(
    command: Callable[..., None],
    options_type: type,
    *,
    panel: str,
    but: Collection[str] = (),
    usual: Collection[str] | None = None,
) -> Callable[..., None]:
    """Returns a command with a flag for each field of an options dataclass, under a heading.

    The field `kind`, nested dataclasses and the fields in `but` get no flags. If `usual` is given,
    help hides the fields that are not in it. The command receives the fields as `**keywords`; a
    flag that is not given is None.
    """

    def extended(**values: Any) -> None:
        command(**values)

    docs, hints = field_docs(options_type), typing.get_type_hints(options_type)
    named = inspect.signature(command).parameters.values()
    parameters = [
        one.replace(kind=one.KEYWORD_ONLY) for one in named if one.kind != one.VAR_KEYWORD
    ]
    for field in _flagged(options_type):
        if field.name not in but:
            hidden = usual is not None and field.name not in usual
            doc = docs.get(field.name, "")
            flag = _annotation(field, hints[field.name], doc, panel, hidden=hidden)
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(field.name, keyword, default=None, annotation=flag))
    extended.__doc__ = command.__doc__
    extended.__annotations__ = {one.name: one.annotation for one in parameters}
    extended.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return extended


def given(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields that the user gave, with lists as tuples."""
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in values.items()
        if value is not None and value != []
    }


def taken(values: dict[str, Any], options_type: type) -> dict[str, Any]:
    """Removes and returns the values that are options of a dataclass."""
    return {name: values.pop(name) for name in flag_names(options_type) if name in values}


@contextmanager
def errors_in_flags(
    flags: Mapping[str, str] | Callable[[str], Mapping[str, str]],
) -> Iterator[None]:
    """Replaces option names in errors by flags; `flags` may be a function of the error text."""
    try:
        yield
    except PenstockError as error:
        text = str(error)
        error.args = (in_flags(text, flags(text) if callable(flags) else flags),)
        raise


def flag_names(options_type: type) -> dict[str, str]:
    """Returns the flag of each field of an options dataclass: `--null-token` for `null_tokens`."""
    hints = typing.get_type_hints(options_type)
    return {
        field.name: _flag(field.name, many=_value_type(hints[field.name])[1])
        for field in _flagged(options_type)
    }


def source_flags(options_type: type) -> dict[str, str]:
    return {field.name: f"--source {field.name}=" for field in fields(options_type)}


def source_option(text: str, *types: type) -> tuple[str, Any]:
    """Returns name and value of a `--source` flag.

    A value is parsed as YAML unless the option is a str.
    """
    name, value = name_and_value("--source", text)
    hints = [typing.get_type_hints(one).get(name, str) for one in types]
    is_text = all(hint in (str, str | None) for hint in hints)
    return name, value if is_text else yaml_value(value, name)


def in_flags(text: str, flags: Mapping[str, str]) -> str:
    """Returns an error text with the options in backquotes replaced by flags.

    Errors name options in Python's form, `nested` or `nested='json'`, in backquotes; the flags are
    `--nested` and `--nested json`. Other text may be the user's and stays unchanged.
    """

    def shown(match: re.Match[str]) -> str:
        name, equals, value = match[1].partition("=")
        if name not in flags:
            return match[0]
        plain = value.strip("'").replace(r"\t", "tab")
        if flags[name].endswith("="):  # a flag that takes NAME=VALUE
            return f"{flags[name]}{plain or '...'}"
        if value == "False":
            return "--no-".join(flags[name].rsplit("--", 1))
        if not equals:
            return flags[name]
        return f"{flags[name]} {plain if _PLAIN.fullmatch(plain) else value}"

    return _OPTION.sub(shown, text)


def field_docs(options_type: type) -> dict[str, str]:
    """Returns each field's text in the docstring's `Attributes:`, as one line.

    Fields of base classes come first.
    """
    docs: dict[str, str] = {}
    for base in reversed(options_type.__mro__):
        docs.update(_entries(base.__doc__ or ""))
    return docs


def _entries(doc: str) -> Iterator[tuple[str, str]]:
    _, _, attributes = inspect.cleandoc(doc).partition("\nAttributes:\n")
    section = re.split(r"^\S", attributes, maxsplit=1, flags=re.MULTILINE)[0]
    # An entry begins at the section's indent; its next lines are indented further.
    for entry in re.split(r"^ {4}(?=\w)", section, flags=re.MULTILINE)[1:]:
        name, colon, text = entry.partition(":")
        if colon:
            yield name.strip(), " ".join(text.replace("`", "").split())


def _flagged(options_type: type) -> list[Field]:
    hints = typing.get_type_hints(options_type)
    return [f for f in fields(options_type) if f.name != "kind" and not is_dataclass(hints[f.name])]


def _flag(name: str, *, many: bool) -> str:
    name = name.removesuffix("s") if many else name.removesuffix("_file")
    return f"--{name.replace('_', '-')}"


def _annotation(field: Field, hint: Any, doc: str, panel: str, *, hidden: bool) -> Any:
    value_type, many = _value_type(hint)
    flag = _flag(field.name, many=many)
    default = None if field.default is MISSING else field.default
    if value_type is bool:
        flag += f"/--no-{flag.removeprefix('--')}" if default else ""
    elif default not in (None, "", ()):
        shown = " ".join(map(repr, default)) if isinstance(default, tuple) else default
        doc += f" (default: {shown})"
    parse: Any = getattr(value_type, "parse", None)
    option = typer.Option(
        flag,
        help=_plain(doc),
        hidden=hidden,
        show_default=False,
        rich_help_panel=panel,
        **({"parser": _parser(parse), "metavar": parse.__self__.metavar} if parse else {}),
    )
    wanted: Any = list[value_type] if many else value_type  # type: ignore[valid-type]
    return Annotated[wanted | None, option]


def _plain(doc: str) -> str:
    """Replaces `None` in a help text by the words "the default", for users of the command line."""
    doc = re.sub(r"(^|\. )None (?=[a-z])", r"\1The default ", doc)
    return re.sub(r"\bNone (?=[a-z])", "the default ", doc)


def _parser(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except UsageError as error:
            raise click.UsageError(str(error)) from error  # Typer drops the text of a ValueError

    return parsed


def _value_type(hint: Any) -> tuple[type, bool]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(one for one in typing.get_args(hint) if one is not type(None))
    if typing.get_origin(hint) is tuple:
        return typing.get_args(hint)[0], True
    if typing.get_origin(hint) is typing.Literal:
        return str, False
    return hint, False
