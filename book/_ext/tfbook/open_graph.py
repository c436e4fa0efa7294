"""What other sites show of a page when somebody shares its link: title, description and picture.

The tags are those of the Open Graph protocol, https://ogp.me. They need whole addresses, which are made from
the repository's address in ``_config.yml``: GitHub publishes OWNER/NAME at https://OWNER.github.io/NAME/.
"""

from __future__ import annotations

import re
from html import escape, unescape
from pathlib import Path
from typing import Any

import yaml
from sphinx.application import Sphinx

from tfbook.launch import REPOSITORY

PICTURE = "_static/card.png"
WIDTH, HEIGHT = 1200, 630
_DESCRIPTION = re.compile(r'<meta content="([^"]*)" name="description"')


def tags(title: str, description: str, address: str, page: str) -> str:
    """Return the tags of a page.

    Args:
        title: the title of the page, as plain text.
        description: one sentence or two, as plain text.
        address: the address of the book, which ends with a slash.
        page: the path of the page below it; empty for the landing page.
    """
    content = {
        "og:type": "article",
        "og:title": title,
        "og:description": description,
        "og:url": f"{address}{page}",
        "og:image": f"{address}{PICTURE}",
        "og:image:width": str(WIDTH),
        "og:image:height": str(HEIGHT),
        "og:image:alt": "Three keys, a query, and the share of attention that each key gets",
    }
    return "\n".join(f'<meta property="{key}" content="{escape(value)}">' for key, value in content.items())


def published_at(config: Path) -> str:
    """Return the address at which GitHub publishes the book, or an empty text without a repository."""
    settings = yaml.safe_load(config.read_text("utf8")) if config.is_file() else {}
    repository = REPOSITORY.fullmatch(str(settings.get("repository", {}).get("url", "")))
    return f"https://{repository[1]}.github.io/{repository[2].removesuffix('.git')}/" if repository else ""


def add_tags(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Add the tags to each page that has a description."""
    found = _DESCRIPTION.search(context.get("metatags", ""))
    address = published_at(Path(app.srcdir) / "_config.yml")
    if found and address:
        title = unescape(re.sub("<[^>]+>", "", str(context.get("title", ""))))
        path = "" if page == app.config.root_doc else f"{page}.html"
        context["metatags"] += tags(title, unescape(found[1]), address, path)


def draw_card(path: Path) -> None:
    """Draw the picture: the arrows of three keys and a query, and the weights of the keys."""
    import matplotlib.pyplot as plt
    import numpy as np

    keys, query = np.array([[1.0, 0.25], [0.1, 1.0], [0.8, -0.7]]), np.array([1.1, 0.5])
    scores = keys @ query / 0.35
    weights = np.exp(scores - scores.max())
    weights = weights / weights.sum()
    ink, colours = "#22313f", ("#2f6fb3", "#b3592f", "#3d8a4e")
    arrow = {"arrowstyle": "-|>", "lw": 4}
    with plt.rc_context({"font.family": "DejaVu Sans", "svg.fonttype": "path"}):
        figure, (arrows, bars) = plt.subplots(1, 2, figsize=(WIDTH / 100, HEIGHT / 100), dpi=100)
        figure.subplots_adjust(top=0.66, bottom=0.1, left=0.06, right=0.94)
        figure.text(0.06, 0.86, "Transformers from first principles", size=38, weight="bold", color=ink)
        figure.text(
            0.06, 0.76, "Each idea is run, measured and practised in graded notebooks.", size=21, color=ink
        )
        for key, colour in zip(keys, colours, strict=True):
            arrows.annotate("", key, (0, 0), arrowprops=arrow | {"color": colour})
        arrows.annotate("", query, (0, 0), arrowprops=arrow | {"color": ink, "ls": "--"})
        arrows.set(xlim=(-0.2, 1.6), ylim=(-0.9, 1.2), aspect="equal")
        bars.barh([2, 1, 0], weights, color=colours)
        for axes in (arrows, bars):
            axes.axis("off")
        figure.savefig(path, facecolor="white")
        plt.close(figure)


def write_card(app: Sphinx, error: Exception | None) -> None:
    """Write the picture beside the book's other static files."""
    if error is None and app.builder.format == "html":
        draw_card(Path(app.outdir) / PICTURE)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", add_tags)
    app.connect("build-finished", write_card)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
