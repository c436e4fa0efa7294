"""A console on which nothing that a student wrote can act: the commands print through it alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich import markup
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from autograder.course.visible import one_line, visible


class Terminal(Console):
    """Rich's console, which sends the terminal no control character but its own."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(highlight=False, emoji=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Return a string as styled text, with what it hides made visible."""
        return super().render_str(visible(text), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render anything, with what its text hides made visible."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def escape(text: str) -> str:
    """Return the text as one line that is printed as it is: visible, and without markup."""
    return markup.escape(one_line(text))
