"""What mkdocs calls while it builds the site (mkdocs.yml)."""

import sys
from typing import Any

from mkdocs.structure.files import File

sys.path.insert(0, ".")  # mkdocs.yml's folder is the current one

from docs.site import options, pages, reference

MADE = {**options.PAGES, **reference.PAGES}
"""Page -> function that makes its Markdown."""


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that are not files of docs/."""
    for file, page in pages.OUTSIDE.items():
        files.append(File.generated(config, page, content=pages.outside_text(file)))
    for page, make in MADE.items():
        files.append(File.generated(config, page, content=make()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """What is written for readers of the files becomes what mkdocs reads."""
    uri = page.file.src_uri
    return markdown if uri in MADE else pages.with_plain_pipes(pages.with_page_links(markdown, uri))
