"""Pages of the site that lie elsewhere in the tree, and links that lead out of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
#: A link, or an image, with its text and its target.
_LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, *, config: Any) -> Files:
    """Add CONTRIBUTING.md, whose links start at the root of the tree."""
    text = (ROOT / "CONTRIBUTING.md").read_text().replace("](docs/", "](")
    files.append(File.generated(config, "contributing.md", content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Lead links to CONTRIBUTING.md to its page, and leave the text alone of links to files of the source."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def lead(found: re.Match[str]) -> str:
        text, target = found.groups()
        name, hash_sign, place = target.partition("#")
        if "://" in target or not name:
            return found[0]
        where = (folder / name).resolve()
        if where == ROOT / "CONTRIBUTING.md":
            return f"[{text}](contributing.md{hash_sign}{place})"
        return found[0] if where.is_relative_to(ROOT / "docs") else text

    return _LINK.sub(lead, markdown)
