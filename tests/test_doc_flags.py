"""Every flag in README and docs exists in the command that the text names with it."""

import re

import pytest
import typer
from pages import BLOCK, ROOT

from penstock.components.sources.kinds import KINDS, options_type
from penstock.pipelines.cli.ingest import _ingest
from penstock.pipelines.cli.main import app
from penstock.pipelines.cli.option_flags import with_flags

# The page for users of earlier commits names removed flags, so it is left out.
PAGES = [
    page.relative_to(ROOT).as_posix()
    for page in (ROOT / "README.md", ROOT / "k8s/README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if page.name != "upgrading.md"
]
INLINE = re.compile(r"`([^`]+)`")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
# In `-n penstock`, `penstock` is a namespace of kubectl, not our command.
PENSTOCK = re.compile(r"(?<!-n )\bpenstock ((?:bench|runs) [a-z]+|[a-z]+) ([^|;&#]*)")
# Commands of other programs, which have their own flags.
OTHERS = re.compile(r"\b(kubectl|docker|pip|gcloud|hadoop|make|python|kind|helm|git|podman) ")
ALWAYS = {"--help", "--help-all", "--version"}


def flags(command):
    return {flag for p in command.params for flag in (*p.opts, *p.secondary_opts)} | ALWAYS


def known_flags():
    """The flags of each command; sub-commands have names such as `bench ladder`."""
    found = {}
    for name, command in typer.main.get_command(app).commands.items():
        found[name] = flags(command)
        for below, one in getattr(command, "commands", {}).items():
            found[f"{name} {below}"] = flags(one)
    for kind in KINDS:
        ingest = typer.Typer(add_completion=False)
        ingest.command()(with_flags(_ingest, options_type(kind), panel=kind))
        found["ingest"] |= flags(typer.main.get_command(ingest))
    return found


KNOWN = known_flags()


def unknown_flags(text):
    """Flags in a text that their command lacks; without a command, flags that no command has."""
    found = []
    blocks = "\n".join(body.replace("\\\n", " ") for _, body in BLOCK.findall(text))
    spans = blocks.splitlines() + INLINE.findall(BLOCK.sub("", text))
    for span in spans:
        commands = PENSTOCK.findall(span)
        for name, arguments in commands:
            own = KNOWN.get(name, set())
            found += [f"{name} {flag}" for flag in FLAG.findall(arguments) if flag not in own]
        if not commands and not OTHERS.search(span) and span.startswith(("--", *KINDS)):
            found += [
                flag for flag in FLAG.findall(span) if flag not in set().union(*KNOWN.values())
            ]
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_flag_that_a_page_names_is_one(page):
    assert unknown_flags((ROOT / page).read_text()) == []


def test_a_flag_that_is_none_is_found():
    text = (
        "`--labels-file`, `text --unit document`, `kubectl get --all`\n"
        "```sh\npenstock run taxi --set a=1 \\\n  --workers 2  # --not-this\n```\n"
    )
    assert unknown_flags(text) == ["run --workers", "--labels-file"]


PROMISES = set(re.findall(r"`([\w/]+/test_\w+\.py)`", (ROOT / "docs/reliability.md").read_text()))


def test_every_test_that_holds_a_promise_is_there():
    assert len(PROMISES) > 40
    assert [path for path in sorted(PROMISES) if not (ROOT / "tests" / path).is_file()] == []


def test_every_test_of_faults_holds_a_promise():
    files = {f"faults/{file.name}" for file in (ROOT / "tests/faults").glob("test_*.py")}
    assert sorted(files - PROMISES) == []
