"""How the chapters write the terms of the glossary: the terms themselves, their plurals and other spellings.

``glossary.yml``, beside ``glossary.md``, says for a term what its letters alone do not tell:

.. code-block:: yaml

    long short-term memory: {also: [LSTM]}
    head: {not: [head start]}
    memory: {only: [06_blocks]}

``also`` lists other spellings, ``not`` phrases in which the word means something else, ``only`` the pages on
which the word is the term, and ``except`` the pages on which it is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

KEYS = {"also": "other", "not": "phrases", "only": "pages", "except": "other_pages"}
APOSTROPHE = "['\N{RIGHT SINGLE QUOTATION MARK}]"


class TermError(ValueError):
    """A declaration that cannot be meant; the message says what is wrong."""


@dataclass(frozen=True)
class Term:
    """A term of the glossary, and how the chapters write it."""

    name: str
    other: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    other_pages: tuple[str, ...] = ()

    def is_on(self, page: str) -> bool:
        """Return whether the word is the term on a page."""
        return page not in self.other_pages and (not self.pages or page in self.pages)

    def spellings(self) -> set[str]:
        """Return every way to write the term, plurals included."""
        written = {_plain(one) for one in (*names(self.name), *self.other)}
        return written | {plural(one) for one in written}


def names(entry: str) -> list[str]:
    """Return the names in an entry of the glossary.

    >>> names("latent attention (MLA)"), names("E4M3, E5M2"), names("top-k and top-p")
    (['latent attention', 'MLA'], ['E4M3', 'E5M2'], ['top-k', 'top-p'])
    """
    return [name for name in re.split(r", | and | \(|\)", entry) if name]


def plural(name: str) -> str:
    """Return the plural of a name.

    >>> [plural(name) for name in ("query", "key", "softmax", "vocabulary", "loss")]
    ['queries', 'keys', 'softmaxes', 'vocabularies', 'losses']
    """
    if re.search(r"[^aeiou]y$", name):
        return f"{name[:-1]}ies"
    return f"{name}es" if re.search(r"(s|x|z|ch|sh)$", name) else f"{name}s"


def read_terms(entries: Iterable[str], declared: str) -> list[Term]:
    """Return the terms of a glossary with what is declared of them in YAML.

    Raises:
        TermError: when something is declared of a term that the glossary lacks, or under an unknown key.
    """
    rest: dict[str, Any] = yaml.safe_load(declared) or {}
    terms = []
    for entry in entries:
        options = rest.pop(entry, {})
        if not isinstance(options, dict) or set(options) - set(KEYS):
            raise TermError(f"{entry!r} has the keys {', '.join(KEYS)}, not {options!r}")
        terms.append(Term(entry, **{KEYS[key]: tuple(value) for key, value in options.items()}))
    if rest:
        raise TermError(f"the glossary has no term {', '.join(map(repr, rest))}")
    return terms


@dataclass
class Finder:
    """Finds the first use of each term on one page; it remembers what it has found."""

    terms: Iterable[Term]
    page: str
    found: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._names: dict[str, str] = {}
        here_last = sorted(self.terms, key=lambda term: term.is_on(self.page))
        for term in here_last:
            name = term.name if term.is_on(self.page) else ""
            self._names |= dict.fromkeys(term.spellings(), name)
        for term in self.terms:
            self._names |= dict.fromkeys(term.phrases, "")
        longest_first = sorted(self._names, key=len, reverse=True)
        pattern = "|".join(_pattern(spelling) for spelling in longest_first)
        self._pattern = re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])")

    def split(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield the pieces of a text in order, each with the term that it is the first use of, or ``""``."""
        start = 0
        for match in self._pattern.finditer(text):
            spelling = _plain(match[0])
            name = self._names.get(spelling) or self._names.get(spelling[0].lower() + spelling[1:])
            if name and name not in self.found:
                self.found.add(name)
                yield text[start : match.start()], ""
                yield match[0], name
                start = match.end()
        yield text[start:], ""


def _plain(text: str) -> str:
    """Return a text on one line with straight apostrophes; Sphinx curls those of the pages."""
    return " ".join(text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())


def _pattern(spelling: str) -> str:
    """Return a pattern for a spelling across lines; its first letter may be large where none is."""
    words = r"\s+".join(re.escape(word) for word in spelling.split()).replace("'", APOSTROPHE)
    if spelling.islower() and spelling[0].isalpha():
        return f"[{spelling[0].upper()}{spelling[0]}]{words[1:]}"
    return words
