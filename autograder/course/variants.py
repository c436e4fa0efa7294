"""Give different students different numbers in a notebook's worked examples and written questions.

A Markdown cell of a solution notebook ends with a comment that lists texts and their replacements::

    <!-- varies question-c
    64 | 100 | 144
    320 | 500 | 720
    -->

The first column lists texts of the cell. A variant replaces them by the texts of another column, the same
column in all rows. Cells whose comments have the same name vary together, so that a mark scheme fits its
question. Students never see the comment.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from autograder.course.errors import BadInputError

_BLOCK = re.compile(r"\n*<!-- varies(?P<name>[^\n]*)\n(?P<rows>.*?)\n?-->", re.DOTALL)


@dataclass(frozen=True)
class Variation:
    """The replacements for one cell: each row is a text of the cell with its alternatives."""

    name: str
    rows: tuple[tuple[str, ...], ...]

    @property
    def columns(self) -> int:
        return len(self.rows[0])


def read(text: str, where: str) -> tuple[str, list[Variation]]:
    """Return a cell's text without its comments, and the variations that the comments declare.

    Args:
        text: the text of the cell.
        where: the cell's name in error messages.

    Raises:
        BadInputError: a comment has no name or rows of different lengths, or its text is not in the cell.
    """
    plain = _BLOCK.sub("", text)
    if "<!-- varies" in plain:
        raise BadInputError(
            f"{where}: a comment that begins with 'varies' does not end with '-->' on a line."
        )
    variations = []
    for match in _BLOCK.finditer(text):
        lines = [line for line in match["rows"].splitlines() if line.strip()]
        rows = tuple(tuple(part.strip() for part in line.split(" | ")) for line in lines)
        name = match["name"].strip()
        if not name or not rows or len(rows[0]) < 2:
            raise BadInputError(f"{where}: expected '<!-- varies NAME' and rows such as '64 | 100 | 144'.")
        for row in rows:
            if len(row) != len(rows[0]):
                raise BadInputError(
                    f"{where}: the row '{' | '.join(row)}' has {len(row)} columns, the first {len(rows[0])}."
                )
            if not _whole_word(row[0]).search(plain):
                raise BadInputError(f"{where}: '{row[0]}' may vary, but it is not in the cell.")
        variations.append(Variation(name, rows))
    return plain, variations


def apply_variant(text: str, where: str, variant: str | None) -> str:
    """Return the cell's text in one variant, or unchanged if `variant` is None.

    Args:
        text: the text of the cell.
        where: the cell's name in error messages; its first word is the assignment.
        variant: the name of the student or the class.
    """
    plain, variations = read(text, where)
    if variant is None:
        return plain
    replacements: dict[str, str] = {}
    for variation in variations:
        column = _column(variant, where.split()[0], variation)
        replacements |= {row[0]: row[column] for row in variation.rows}
    longest_first = sorted(replacements, key=len, reverse=True)
    pattern = "|".join(_whole_word(old).pattern for old in longest_first)
    return re.sub(pattern, lambda match: replacements[match[0]], plain) if replacements else plain


def _column(variant: str, assignment: str, variation: Variation) -> int:
    key = f"{variant}\0{assignment}\0{variation.name}".encode()
    return 1 + int.from_bytes(hashlib.sha256(key).digest()[:8], "big") % (variation.columns - 1)


def _whole_word(text: str) -> re.Pattern[str]:
    """Return a pattern that finds the text, but not as a part of a longer number or word."""
    before = r"(?<![\w.])" if text[0].isalnum() else ""
    after = r"(?!\w|\.\d)" if text[-1].isalnum() else ""
    return re.compile(before + re.escape(text) + after)
