"""What a run rested on, kept beside its records, so that a command need not only repeat it.

Only a run of which `pipelines/local/cached_next.py` knows that the next would find every node in
the cache is kept. While all that it rested on is as it was, that run need not be made.
"""

import hashlib
import json
import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.components.example_gen.fingerprint import input_fingerprint
from penstock.components.files.commit import attempt_file
from penstock.components.sources.kinds import options_from_json

FILE = "unchanged.json"
# Of a terminal and of `make`: no pipeline is made by them.
_OF_TERMINAL = ("_", "COLUMNS", "LINES", "MAKE", "MFLAGS", "OLDPWD", "SHLVL", "SSH_", "TERM")


@dataclass(frozen=True)
class Unchanged:
    """A run, and all that the next one like it would look at.

    Attributes:
        command: `command_digest` of it.
        run_id: Of the run.
        nodes: Of the pipeline, in the order in which they began.
        inputs: The fingerprint of each ExampleGen's data, and what it is taken of.
        states: `state_of` modules, what was read to make the pipeline, metadata and artifacts.
        text: The summary of a run of which all is cached.
        json: The same.
    """

    command: str
    run_id: str
    nodes: Sequence[str]
    inputs: Sequence[tuple[str, Sequence[tuple[str, Mapping[str, Any]]]]]
    states: Mapping[str, Any]
    text: str
    json: str

    def holds(self) -> bool:
        """Whether all is as it was."""
        return all(state_of(path) == state for path, state in self.states.items()) and all(
            found == input_fingerprint([(pattern, options_from_json(raw)) for pattern, raw in of])
            for found, of in self.inputs
        )

    def keep(self, folder: Path) -> None:
        """Write it into the folder of the runs."""
        with attempt_file(folder / FILE) as file:
            file.write_text(json.dumps(asdict(self)))


def find_unchanged(command: str, root: str | None) -> Unchanged | None:
    """The run that a command would only repeat; in `root`, or where runs are by default."""
    for folder in [Path(root)] if root else [Path("runs"), *Path("runs").glob("*")]:
        try:
            kept = Unchanged(**json.loads((folder / FILE).read_bytes()))
            if kept.command == command and kept.holds():
                return kept
        except Exception:  # whatever it is, the ordinary way meets it too, or does without
            continue
    return None


def command_digest(pipeline: str, changes: Mapping[str, Any]) -> str:
    """sha256 (hex), for there may be secrets in them, of a command and of what is around it."""
    around = {name: text for name, text in os.environ.items() if not name.startswith(_OF_TERMINAL)}
    here = sorted(map(str, Path().glob("*/pipeline.py")))
    # A package that comes, goes or is replaced changes the time of their folder.
    packages = os.stat(sysconfig.get_path("purelib")).st_mtime_ns
    parts = [pipeline, changes, around, os.getcwd(), here, sys.executable, sys.version, packages]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()


def state_of(path: str) -> Any:
    """Size, times and number of a file, of which no edit leaves all; None where there is nothing.

    The `ctime` is set by the system alone. Of a folder the states of all in it, or, where the path
    ends in a slash, the names alone, without what Python and editors put there.
    """
    if path.endswith("/"):
        return {n: None for n in sorted(os.listdir(path)) if not n.startswith((".", "__pycache__"))}
    if os.path.isdir(path):
        return {name: state_of(os.path.join(path, name)) for name in sorted(os.listdir(path))}
    if not os.path.exists(path):
        return None
    found = os.stat(path)
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
