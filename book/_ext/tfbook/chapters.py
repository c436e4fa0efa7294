"""A chapter's number is written on the chapter: ``chapter: 2`` in a page's front matter.

Sphinx numbers pages by counting, which would make chapter 2 the first as long as chapter 1 is not
written. Here the number comes from the page, and section, figure, table and equation numbers follow.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.environment.collectors.toctree import TocTreeCollector


def section_numbers(toc: nodes.Element, chapter: int) -> dict[str, tuple[int, ...]]:
    """Anchor to number for the entries of one page's table of contents; ``""`` is the page."""
    numbers: dict[str, tuple[int, ...]] = {}

    def walk(entries: nodes.Element, prefix: tuple[int, ...]) -> None:
        count = 0
        for item in entries.children:
            if not isinstance(item, nodes.list_item):
                continue
            count += 1
            number = (*prefix, count) if prefix else (chapter,)
            for child in item.children:
                if isinstance(child, nodes.bullet_list):
                    walk(child, number)
                    continue
                for reference in child.findall(nodes.reference):
                    reference["secnumber"] = number
                    numbers[reference["anchorname"]] = number

    walk(toc, ())
    return numbers


def number_chapters(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Sets the section numbers of every page with a chapter, then counts its figures again."""
    changed = []
    for page, metadata in env.metadata.items():
        if "chapter" not in metadata:
            continue
        chapter = int(metadata["chapter"])
        numbers = section_numbers(env.tocs[page], chapter)
        env.titles[page]["secnumber"] = (chapter,)
        if env.toc_secnumbers.get(page) != numbers:
            changed.append(page)
        env.toc_secnumbers[page] = numbers
    return changed + TocTreeCollector().assign_figure_numbers(env)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("env-get-updated", number_chapters, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
