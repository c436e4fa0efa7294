"""Print safely: no control character or markup in a student's text reaches the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich import markup
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from autograder.course.visible import one_line, visible


class Terminal(Console):
    """A Rich console that shows the control characters of texts instead of sending them to the terminal."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(highlight=False, emoji=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Return a string as styled text, with hidden characters made visible."""
        return super().render_str(visible(text), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render an object, with hidden characters of its text made visible."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def escape(text: str) -> str:
    """Return the text as one line, with hidden characters made visible and markup escaped."""
    return markup.escape(one_line(text))
