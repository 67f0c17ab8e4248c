"""Wrong use of a command as Typer finds it, in one line as ours: its error in, text out."""

import re
from typing import Any

_REWORDED = (
    (r" \(Possible options: .*\)$", ""),
    (r"^Invalid value(?: for|:) ", ""),
    (r"^No such option: (-\S+)$", r"no such option \1"),
    (r"\.? Did you mean ('[^']*').*\?$", r"; did you mean \1?"),
    (r"^'(-[^']*)'(?: / '-[^']*')*: ", r"\1: "),
    (r": Input should be a valid integer.*$", ": expected a whole number"),
    (r": Input should be ([^,]*).*$", r": expected \1"),
    (": expected greater than or equal to ", ": expected at least "),
)


def wrong_use(error: Any) -> str | None:
    """The command, what is wrong with the words after it, and what was meant or where to look.

    Empty where the help is printed already; None of an error that is not Typer's.
    """
    if not hasattr(error, "format_message"):
        return None
    text = " ".join(error.format_message().split())
    for pattern, better in _REWORDED:
        text = re.sub(pattern, better, text)
    text = re.sub(r"^Missing argument '(\w+)'", lambda found: f"missing {found[1].upper()}", text)
    if not text:
        return ""
    text = f"{text[:1].lower()}{text[1:]}".rstrip(".")
    if hasattr(error.__cause__, "errors"):  # of a value, which the text does not say
        text += f", got {error.__cause__.errors()[0]['input']!r}"
    context = getattr(error, "ctx", None)
    words = context.command_path.split() if context else ["penstock"]
    if not text.endswith("?"):  # as Typer has it for commands, and click for options
        if near := getattr(error, "possibilities", None):
            text += f"; did you mean {near[0]}?"
        elif context:
            text += f"; see {' '.join(words)} --help"
    return f"{' '.join(words[1:])}: {text}" if words[1:] else text
