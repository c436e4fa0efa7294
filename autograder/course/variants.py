"""Other numbers for other students: the variants of a notebook's worked examples and written questions.

A Markdown cell of a solution notebook ends with a comment that says what may stand in place of what::

    <!-- varies question-c
    64 | 100 | 144
    320 | 500 | 720
    -->

The first column is what the cell says; a variant says one of the other columns instead, in all rows.
Cells whose comments bear the same name vary together, so that a mark scheme fits its question. A student
never sees the comment.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from autograder.course.errors import BadInputError

_BLOCK = re.compile(r"\n*<!-- varies(?P<name>[^\n]*)\n(?P<rows>.*?)\n?-->", re.DOTALL)


@dataclass(frozen=True)
class Variation:
    """What may stand in place of what, in one cell."""

    name: str
    rows: tuple[tuple[str, ...], ...]

    @property
    def columns(self) -> int:
        return len(self.rows[0])


def read(text: str, where: str) -> tuple[str, list[Variation]]:
    """A cell's text without its comments, and what they say.

    Args:
        text: the cell.
        where: what to call the cell in an error.

    Raises:
        BadInputError: a comment has no name, rows of different lengths, or speaks of what is not there.
    """
    plain = _BLOCK.sub("", text)
    if "<!-- varies" in plain:
        raise BadInputError(
            f"{where}: a comment that begins with 'varies' does not end with '-->' on a line."
        )
    found = []
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
            if not _standing(row[0]).search(plain):
                raise BadInputError(f"{where}: '{row[0]}' may vary, but does not stand in the cell.")
        found.append(Variation(name, rows))
    return plain, found


def varied(text: str, where: str, variant: str | None) -> str:
    """The cell as a student gets it; without a variant as it stands.

    Args:
        text: the cell.
        where: what to call the cell in an error; its first word is the assignment.
        variant: the name of the student or the class.
    """
    plain, variations = read(text, where)
    if variant is None:
        return plain
    instead: dict[str, str] = {}
    for variation in variations:
        column = _column(variant, where.split()[0], variation)
        instead |= {row[0]: row[column] for row in variation.rows}
    longest_first = sorted(instead, key=len, reverse=True)
    pattern = "|".join(_standing(old).pattern for old in longest_first)
    return re.sub(pattern, lambda found: instead[found[0]], plain) if instead else plain


def _column(variant: str, assignment: str, variation: Variation) -> int:
    told = f"{variant}\0{assignment}\0{variation.name}".encode()
    return 1 + int.from_bytes(hashlib.sha256(told).digest()[:8], "big") % (variation.columns - 1)


def _standing(text: str) -> re.Pattern[str]:
    """The text where it stands by itself, and not as a part of a longer number or word."""
    before = r"(?<![\w.])" if text[0].isalnum() else ""
    after = r"(?!\w|\.\d)" if text[-1].isalnum() else ""
    return re.compile(before + re.escape(text) + after)
