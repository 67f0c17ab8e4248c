"""Adds pages from outside docs/ to the site; maps links between files to links between pages."""

import os
import posixpath
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
# These pages are outside docs/ because readers on a code host look for them in the root folder.
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the files of `OUTSIDE`, the Markdown files of k8s/, and an index of the decisions."""
    for source, place in outside_pages().items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=text))
    rows = [
        f"- [{path.read_text(encoding='utf-8').splitlines()[0].lstrip('# ')}]({path.name})"
        for path in sorted((ROOT / "docs/decisions").glob("*.md"))
    ]
    index = "# Decisions\n\n" + "\n".join(rows) + "\n"
    files.append(File.generated(config, "decisions/index.md", content=index))
    return files


def outside_pages() -> dict[str, str]:
    """Returns the path in the site of each page outside docs/, by its path in the repository."""
    kubernetes = {
        f"k8s/{path.name}": "kubeflow.md" if path.stem == "README" else f"kubeflow/{path.name}"
        for path in (ROOT / "k8s").glob("*.md")
    }
    return {**OUTSIDE, **kubernetes}


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Makes links point to pages; links to code become plain text, because the site has no code."""
    pages = outside_pages()
    origins = {place: source for source, place in pages.items()}
    place = page.file.src_uri
    folder = PurePosixPath(origins.get(place, f"docs/{place}")).parent

    def mapped(match: re.Match[str]) -> str:
        image, text, target = match.groups()
        path, hash_, anchor = target.partition("#")
        if not path or "://" in target or target.startswith("mailto:"):
            return match[0]
        source = posixpath.normpath(f"{folder}/{path}")
        if source in pages:
            found = pages[source]
        elif source == "docs/decisions":
            found = "decisions/index.md"
        elif source.startswith("docs/") and not source.endswith(".ipynb"):
            found = source.removeprefix("docs/")
        elif (ROOT / source).exists():
            return text
        else:
            return match[0]  # a broken link, which stops the build
        relative = os.path.relpath(found, posixpath.dirname(place) or ".")
        return f"{image}[{text}]({relative}{hash_}{anchor})"

    return LINK.sub(mapped, markdown)
