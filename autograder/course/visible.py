"""Make students' text safe to show: it cannot control a terminal or mislead its reader."""

from __future__ import annotations

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories of invisible characters: controls, writing directions, zero widths, line ends."""


def visible(text: str) -> str:
    r"""Return the text with an escape sequence in place of each invisible character.

    Such characters can erase or colour lines of a terminal, reverse the writing direction or hide text. Line
    feeds and tabs are kept.

    >>> print(visible("x = 1  # \x1b[2K\rada"))
    x = 1  # \x1b[2K\rada
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def one_line(text: str) -> str:
    r"""Return the visible text on one line, so that it cannot imitate a line about another student.

    >>> print(one_line("no\nada: 17 of 17"))
    no\nada: 17 of 17
    """
    return visible(text).replace("\n", r"\n").replace("\t", r"\t")


def _shown(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape").decode()
