"""Write the kill matrix as a page of the book: the criteria that reject each mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, groupby
from typing import Any

from autograder import exercises
from autograder.proof.verify import Entry, Proof

HEAD = """---
myst:
  html_meta:
    description: Every mistake that the grader knows, the criteria that reject it, and its hint.
---
<!-- Written by `autograder verify --page book/kill_matrix.md`; a test compares this page with its output. -->

# The mistakes that the checks can name

A check is only worth its points if it rejects wrong answers and accepts right ones. So every exercise of
this course has a bank of wrong answers that students may give, each with a hint for its author, and a bank of
right answers that look different from ours. `autograder verify` gives each of them to `check`, as a student
would, and to the grader, which draws other numbers. This page has the results; [the next page](mutants.md)
has the results for mistakes that are in no bank.

In the tables a row is a wrong answer, and a column is one of the numbered criteria that earn points; such a
table is called a *kill matrix*. {FAILS} means that the answer fails the criterion in the cases that students
see. No row is empty: an empty row would be a mistake that gets full marks. A mistake is *named* if its author
reads the hint in its row and no other.
"""
FAILS = "✗"


def page(proof: Proof, before: str = "") -> str:
    """Return the page in MyST Markdown.

    Args:
        proof: the results for the whole course or for some assignments.
        before: the earlier page; the parts about assignments that are not in `proof` are kept.
    """
    rows, sections = _parse(before)
    for assignment, entries in groupby(proof.entries, lambda entry: entry.exercise.split("/")[0]):
        rows[assignment] = _counts(list(entries))
    for assignment, tables in groupby(proof.matrix(), lambda table: table["exercise"].split("/")[0]):
        sections[assignment] = "\n".join(chain.from_iterable(map(_exercise, tables)))
    return "\n".join([HEAD.replace("{FAILS}", FAILS), *_summary(rows), *_sections(sections)]) + "\n"


def _parse(before: str) -> tuple[dict[str, list[int]], dict[str, str]]:
    """Return by assignment of the course the counts in its row of a page, and the text of its section."""
    course = exercises.assignments()
    rows = re.findall(r"^\| \[.*\]\(mistakes-(\w+)\) \| ([\d,of| ]+) \|$", before, re.MULTILINE)
    section = r"^\(mistakes-(\w+)\)=\n## [^\n]*\n(.*?)(?=\n+^\(mistakes-|\n*\Z)"
    sections = re.findall(section, before, re.MULTILINE | re.DOTALL)
    return (
        {name: _numbers(counts) for name, counts in rows if name in course},
        {name: text for name, text in sections if name in course},
    )


def _numbers(cells: str) -> list[int]:
    """Return the counts in a row of the first table.

    >>> _numbers("1,579 of 1,579 | 1,579 | 372 of 372")
    [1579, 1579, 1579, 372, 372]
    """
    return [int(count) for count in re.findall(r"\d+", cells.replace(",", ""))]


def _counts(entries: list[Entry]) -> list[int]:
    mistakes = [entry for entry in entries if entry.is_misconception]
    styles = [entry for entry in entries if not entry.is_misconception]
    return [
        sum(entry.as_expected for entry in mistakes),
        len(mistakes),
        sum(entry.named_under_first_seed for entry in mistakes),
        sum(entry.as_expected for entry in styles),
        len(styles),
    ]


def link(assignment: str) -> str:
    """Return the title of an assignment as a link to its section, from any page of the book.

    >>> link("ch02_qkv")
    '[Chapter 2: query, key, value](mistakes-ch02_qkv)'
    """
    return f"[{exercises.title(assignment)}](mistakes-{assignment})"


def _summary(rows: dict[str, list[int]]) -> Iterator[str]:
    yield "| chapter | mistakes rejected | named | right answers accepted |"
    yield "|:--|--:|--:|--:|"
    cells = "{:,} of {:,} | {:,} | {:,} of {:,}"
    for name in sorted(rows):
        yield f"| {link(name)} | {cells.format(*rows[name])} |"
    yield f"| **all** | {cells.format(*(sum(column) for column in zip(*rows.values(), strict=True)))} |"


def _sections(sections: dict[str, str]) -> Iterator[str]:
    for name in sorted(sections):
        yield f"\n(mistakes-{name})=\n## {exercises.title(name)}\n{sections[name]}"


def _exercise(table: dict[str, Any]) -> Iterator[str]:
    mistakes = [answer for answer in table["answers"] if answer["is_misconception"]]
    styles = [_plain(answer["says"]) for answer in table["answers"] if not answer["is_misconception"]]
    count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    yield f"\n:::{{dropdown}} `{table['exercise'].split('/')[1]}`: {count}"
    yield ":class-container: tf-kills\n"
    yield f"{_plain(exercises.find(table['exercise']).goal)} Its criteria:\n"
    yield from (f"{number}. {_plain(says)}" for number, says in enumerate(table["criteria"], 1))
    numbers = range(1, len(table["criteria"]) + 1)
    yield f"\n| mistake, and what its author reads | {' | '.join(map(str, numbers))} |"
    yield f"|:--|{':-:|' * len(numbers)}"
    for answer in mistakes:
        marks = " | ".join(FAILS if fails else " " for fails in answer["fails"])
        unnamed = "" if answer["named"][0] == answer["name"] else " (explained by what is broken, not named)"
        says = _plain(answer["says"]).replace("|", r"\|")
        yield f"| `{answer['name']}` {says}{unnamed} | {marks} |"
    yield f"\nRight answers in other styles, all accepted: {'; '.join(styles)}."
    yield ":::"


def _plain(text: str) -> str:
    r"""Escape a sentence for Markdown, except code between backticks and a *word* between asterisks.

    >>> print(_plain("`a_b` is *not* c_d, nor is it 2 * 3 * 4 or h**2"))
    `a_b` is *not* c\_d, nor is it 2 \* 3 \* 4 or h\*\*2
    """
    parts = re.split(r"(`[^`]*`|(?<![\w*])\*[a-z][a-z ]*\*(?![\w*]))", text)
    parts[::2] = [re.sub(r"([\\*_<>\[\]{}$#^~])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)
