"""Texts and tables for people: Rich on a terminal, aligned lines elsewhere."""

import io
import os
from collections.abc import Callable, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

# C0 and C1 control characters (such as ESC, which begins terminal commands), DEL, and marks that
# change the direction of text. Line feeds and tabs are kept.
_CONTROL = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
}
_DIRECTION = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_ESCAPES = _CONTROL | _DIRECTION


def plain(text: str) -> str:
    """Replaces control characters and undecodable bytes by Python's escapes."""
    return text.translate(_ESCAPES).encode("utf-8", "backslashreplace").decode("utf-8")


class _PlainConsole(Console):
    """A console that escapes control characters in strings, except in its own styles."""

    def render_str(self, text: str, **more: Any) -> Text:
        return super().render_str(plain(text), **more)


def console(*, soft_wrap: bool = True, **more: Any) -> Console:
    """Returns a console, by default on stdout, that shows markup and control codes as text."""
    return _PlainConsole(highlight=False, markup=False, emoji=False, soft_wrap=soft_wrap, **more)


def as_html(show: Callable[[Console], None]) -> str:
    """Returns the output of `show` as HTML for a notebook."""
    # `console` sets soft_wrap, with which Rich does not wrap lines: a notebook scrolls wide tables,
    # while wrapped lines would be unreadable.
    out = console(file=io.StringIO(), record=True, width=160)
    show(out)
    return out.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def print_table(
    out: Console, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Prints a table; outside a terminal, one line per row, for `grep` and `awk`."""
    if out.is_terminal:
        table = Table(*headers, title=title, title_justify="left", title_style="bold")
        for row in rows:
            table.add_row(*(Text(plain(cell)) for cell in row))
        out.print(table, soft_wrap=False)
        return
    lines = [[plain(cell) for cell in line] for line in (headers, *rows)]
    widths = [max(cell_len(line[i]) for line in lines) for i in range(len(headers))]
    out.print(title)
    for line in lines:
        cells = (set_cell_size(cell, width) for cell, width in zip(line, widths, strict=True))
        out.print(f"  {'  '.join(cells).rstrip()}")


def human_bytes(count: int) -> str:
    """Formats a number of bytes as `999 B`, `1.4 KiB` or `150.0 MiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def short_path(file: str, path: str) -> str:
    """Returns a file's path relative to `path` if `path` is a folder, otherwise unchanged."""
    return os.path.relpath(file, path) if os.path.isdir(path) else file


def short_paths(files: Sequence[str], path: str) -> str:
    return ", ".join(short_path(file, path) for file in files)
