"""Messages that name options as Python does, in the words of the shell.

In: `set allow_empty`, `nested='json' keeps it`. Out: `set --allow-empty`, `--nested json keeps it`.
"""

import re
from collections.abc import Mapping

from penstock.components.files.listing import EXTENSIONS
from penstock.components.sources.kinds import KINDS, options_type
from penstock.pipelines.cli.option_flags import flag_names

# Not the field of a kind: those of the command itself.
_OWN = {
    "kind": "--kind",
    "on_bad_row": "--on-bad-row",
    "max_quarantined_share": "--max-quarantined-share",
    "partition_feature": "--partition-feature",
    "reading_hosts": "--reading-hosts",
    "parquet_copy": "--parquet-copy",
    "hash_buckets": "N of --split NAME=N",
}
# What is quoted or part of a path is the user's own.
_WORD = r"(?<![\w'\"./=-]){name}(?:=(?P<value>'[^']*'|[\w.]+)|(?![\w'\"/=-]|\.\w))"
_PLAIN = re.compile(r"'(\w+)'")


def in_flags(text: str, kind: str | None) -> str:
    """An error of `penstock ingest` with flags where it names options.

    Args:
        text: The error.
        kind: As `--kind` says; None where the files tell, whose own flags then need it.
    """
    flags = _OWN | flag_names(options_type(kind))
    if kind is None and (found := _kind_told(text)):
        more = flag_names(options_type(found))
        flags = {name: f"--kind {found} {flag}" for name, flag in more.items()} | flags
    return _replace(text, flags)


def _kind_told(text: str) -> str | None:
    """The kind of the file that an error begins with, by its name."""
    path = text.split(": ", 1)[0].lower()
    return next((k for k, ends in EXTENSIONS.items() if k in KINDS and path.endswith(ends)), None)


def _replace(text: str, flags: Mapping[str, str]) -> str:
    for name, flag in flags.items():

        def shown(match: re.Match[str], name: str = name, flag: str = flag) -> str:
            value = match["value"]
            if value is not None:
                return f"{flag} " + _PLAIN.sub(r"\1", value.replace(r"\t", "tab"))
            # A single word may be one of the sentence: `a schema`, `the delimiter`.
            return flag if "_" in name else match[0]

        text = re.sub(_WORD.format(name=name), shown, text)
    return text
