"""A label file to a `LabelTable`: CSV, JSON, MATLAB's v5 and v7.3, by content or extension."""

import json
from collections.abc import Mapping

import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.files.content import open_data
from penstock.components.sources.csv.source import open_csv
from penstock.components.sources.images.label_table import LabelTable, find_file_column, type_rows
from penstock.components.sources.images.matlab import is_matlab, read_matlab
from penstock.components.sources.images.options import Images
from penstock.components.sources.lines.json.scan import check_keys, no_duplicates
from penstock.components.sources.options import Table

_CLASS_NAMES = ("class_names", "classes", "categories", "label_names")
Branch = Mapping[str, object]


def read_labels(path: str, options: Images) -> LabelTable:
    """Read a label file whole; those of a million images take some hundred MiB.

    Raises:
        DataError: It cannot be read, or holds no rows that name files.
    """
    with open_data(path) as stream:
        head = stream.read(1024)
    if not head:
        raise DataError(f"{path}: is empty (0 bytes), expected labels")
    if is_matlab(head):
        return _from_tree(read_matlab(path), path, options, first_class=1)
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        return _from_tree(_read_json(path), path, options, first_class=0)
    return _read_csv(path)


def read_class_names(path: str) -> tuple[str, ...]:
    """The names of all classes, in order: lines of text, a JSON list, or MATLAB's `class_names`.

    Raises:
        DataError: There are none, or two are equal; names the file.
    """
    with open_data(path) as stream:
        data = stream.read()
    if is_matlab(data[:1024]):
        names = _class_names(read_matlab(path))
    elif data.lstrip()[:1] in (b"{", b"["):
        names = _class_names(_read_json(path))
    else:
        lines = data.decode("utf-8-sig", "surrogateescape").splitlines()
        names = tuple(line.strip() for line in lines if line.strip())
    if not names:
        raise DataError(f"{path}: no names of classes; expected a list of them, or a name a line")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{path}: names class {twice!r} twice")
    return names


def _read_csv(path: str) -> LabelTable:
    source = open_csv([path], Table(kind="csv", non_finite="keep"))
    batches = []
    for pieces in source.cut(1):
        for batch in source.read(pieces):
            if batch.rejected:
                raise DataError(str(batch.rejected[0]))
            batches.append(batch.table)
    table = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return LabelTable(path, "its rows", source.columns, table[0])


def _read_json(path: str) -> object:
    with open_data(path) as stream:
        try:
            return json.loads(stream.read(), object_pairs_hook=_checked)
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DataError(f"{path}: not JSON ({error})") from error
        except ValueError as error:
            raise DataError(f"{path}: {error}; expected text, once") from error


def _checked(pairs: list[tuple[str, object]]) -> dict[str, object]:
    check_keys(key for key, _ in pairs)
    return no_duplicates(pairs)


def _from_tree(tree: object, path: str, options: Images, *, first_class: int) -> LabelTable:
    """The rows among nested values: the only list of mappings, or mapping of lists, with files."""
    wanted = options.file_column
    values = [("its rows", tree), *(tree.items() if isinstance(tree, Mapping) else ())]
    found = {name: rows for name, value in values if (rows := _rows(value, wanted))}
    found = found or {"its names": _rows_by_name(tree)}
    found = {n: rows for n, rows in found.items() if rows and find_file_column(rows[0], wanted)}
    if options.labels_variable is not None:
        found = {name: rows for name, rows in found.items() if name == options.labels_variable}
    if len(found) != 1:
        has = f"{', '.join(found)} do" if found else f"it has {_outline(tree)}"
        which = "only one of its values" if found else "one of its values"
        raise DataError(
            f"{path}: expected {which} to hold rows with a file each, but {has}; "
            "name it with `labels_variable`, its column with `file_column`"
        )
    name, rows = next(iter(found.items()))
    columns, table = type_rows(rows, path)
    return LabelTable(path, name, columns, table, _class_names(tree), first_class)


def _rows(value: object, wanted: str | None) -> list[Branch]:
    """The rows of a list of mappings, or of a mapping of lists of equal length."""
    if isinstance(value, list):
        return value if all(isinstance(row, Mapping) for row in value) else []
    if not isinstance(value, Mapping):
        return []
    if isinstance(value.get(find_file_column(value, wanted) or ""), str):
        return [value]  # a struct array of one is a struct
    lists = {key: part for key, part in value.items() if isinstance(part, list) and part}
    files = lists.get(find_file_column(lists, wanted) or "", [])
    # Names of classes and the like are no column.
    columns = {key: part for key, part in lists.items() if len(part) == len(files)}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _rows_by_name(tree: object) -> list[Branch]:
    """The rows of a mapping from files to classes, or to mappings."""
    if not isinstance(tree, Mapping):
        return []
    if all(isinstance(value, (str, int)) for value in tree.values()):
        return [{"file": name, "class": value} for name, value in tree.items()]
    if all(isinstance(value, Mapping) for value in tree.values()):
        return [{"file": name, **value} for name, value in tree.items()]
    return []


def _class_names(tree: object) -> tuple[str, ...] | None:
    if isinstance(tree, Mapping):
        for name in _CLASS_NAMES:
            names = tree.get(name)
            if isinstance(names, list) and names and all(isinstance(one, str) for one in names):
                return tuple(names)
    elif isinstance(tree, list) and tree and all(isinstance(one, str) for one in tree):
        return tuple(tree)
    return None


def _outline(tree: object) -> str:
    if isinstance(tree, Mapping):
        return ", ".join(map(repr, list(tree)[:8])) or "none"
    return f"a {type(tree).__name__}"
