"""The files through which docs/architecture.md follows a row and an image are few, and exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_row_and_an_image_cross_at_most_25_files():
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    walk = page.split("## One row, one image")[1].split("\n## ")[0]
    of_row, of_image = (
        dict.fromkeys(re.findall(r"`((?:components|pipelines)/[\w/]+\.py)`", part))
        for part in walk.split("An image of")
    )
    for file in (*of_row, *of_image):
        assert (ROOT / file).is_file(), file
    text = {file for file in of_row if re.search("/csv/|/text/|/tokens", file)}
    assert len(of_row) == 22
    assert len({*of_row} - text | {*of_image}) <= 25
