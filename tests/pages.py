"""Blocks of code in the README and the docs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language, page="README.md"):
    text = (ROOT / page).read_text()
    return [body for kind, body in BLOCK.findall(text) if kind == language]
