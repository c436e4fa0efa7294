"""Text of students, shown so that it can neither command a terminal nor mislead its reader."""

from __future__ import annotations

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Kinds of characters that show nothing themselves: controls, directions of writing, no width, line ends."""


def visible(text: str) -> str:
    r"""Return the text with each character that shows nothing written as its escape.

    Such characters erase lines of a terminal, colour them, turn the direction of writing or hide. Line feeds
    and tabs stay as they are.

    >>> print(visible("x = 1  # \x1b[2K\rada"))
    x = 1  # \x1b[2K\rada
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def one_line(text: str) -> str:
    r"""Return the visible text on one line, so that it cannot pass for a line of somebody else.

    >>> print(one_line("no\nada: 17 of 17"))
    no\nada: 17 of 17
    """
    return visible(text).replace("\n", r"\n").replace("\t", r"\t")


def _shown(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape").decode()
