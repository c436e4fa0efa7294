"""Prose that no published model has read: a snapshot of this book from November 2026."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def book_prose() -> dict[str, str]:
    """Return the prose of each chapter: no formula, no code, no table, up to 12,000 characters.

    The text is a snapshot: measurements on it do not move when the book is edited.

    Returns:
        The paragraphs of each chapter by its name, such as ``"05_positions"``, with a blank line between two.
        The names are those of that month: ``"09_variants"`` has since become chapters 9 and 10.

    >>> print(len(book_prose()), book_prose()["02_qkv"][:29])
    10 Attention is a way to look so
    """
    text = files("tfcore.data").joinpath("book_prose.txt").read_text("utf8")
    chapters = (page.split("\n\n", 1) for page in text.split("\f\n"))
    return {name: prose.strip() for name, prose in chapters}
