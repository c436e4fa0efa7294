"""The kill matrix as a page of the book: which criterion stops which mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from autograder.verify import Proof

HEAD = """---
title: The kill matrix
---

<!-- Written by `autograder verify --page book/kill_matrix.md`; a test holds it in step. -->

# The kill matrix

A check is only worth its points if it stops what is wrong and lets pass what is right. So every exercise of
this course has a bank of wrong answers that students give, each with the sentence that its author should
read, and a bank of right answers that look unlike ours. `autograder verify` gives each of them to the grader,
under several seeds. This page shows what becomes of them.

In the tables a row is a wrong answer, a column one of the numbered criteria that earn points; {FAILS} stands
where the answer fails. No row may be empty: an empty one would be a mistake that gets full marks.
A mistake is *told by name* if its author reads the hint beside it and no other.
"""
FAILS = "✗"


def page(proof: Proof) -> str:
    """The page in MyST Markdown."""
    return "\n".join([HEAD.replace("{FAILS}", FAILS), *_summary(proof), *_exercises(proof)]) + "\n"


def _summary(proof: Proof) -> Iterator[str]:
    yield "| assignment | exercises | mistakes | rejected | told by name | right answers | accepted |"
    yield "|:--|--:|--:|--:|--:|--:|--:|"
    every = [("all", proof.entries)] + [
        (assignment, list(own))
        for assignment, own in groupby(proof.entries, lambda e: e.exercise.split("/")[0])
    ]
    for name, entries in [*every[1:], every[0]]:
        mistakes = [entry for entry in entries if entry.is_misconception]
        styles = [entry for entry in entries if not entry.is_misconception]
        cells = [
            len({entry.exercise for entry in entries}),
            len(mistakes),
            sum(entry.as_it_should for entry in mistakes),
            sum(entry.diagnosed for entry in mistakes),
            len(styles),
            sum(entry.as_it_should for entry in styles),
        ]
        yield f"| {name} | {' | '.join(map(str, cells))} |"


def _exercises(proof: Proof) -> Iterator[str]:
    for assignment, tables in groupby(proof.matrix(), lambda table: table["exercise"].split("/")[0]):
        yield f"\n## {assignment}"
        for table in tables:
            yield f"\n### `{table['exercise'].split('/')[1]}`\n"
            yield from _table(table)


def _table(table: dict[str, Any]) -> Iterator[str]:
    yield from (f"{number}. {_plain(says)}" for number, says in enumerate(table["criteria"], 1))
    numbers = range(1, len(table["criteria"]) + 1)
    yield f"\n| mistake | {' | '.join(map(str, numbers))} | what its author reads |"
    yield f"|:--|{':-:|' * len(numbers)}:--|"
    mistakes = [answer for answer in table["answers"] if answer["is_misconception"]]
    for answer in mistakes:
        marks = " | ".join(FAILS if fails else " " for fails in answer["fails"])
        told = "" if answer["diagnosed"] else " (told by what is broken, not by name)"
        yield f"| `{answer['name']}` | {marks} | {_plain(answer['says'])}{told} |"
    styles = [_plain(a["says"]) for a in table["answers"] if not a["is_misconception"]]
    yield f"\nRight answers in other styles, all accepted: {'; '.join(styles)}."


def _plain(text: str) -> str:
    """A sentence in which Markdown sees code between backticks and nothing else."""
    parts = re.split(r"(`[^`]*`)", text)
    escaped = [p if p.startswith("`") else re.sub(r"([\\*_<>\[\]{}$#^~])", r"\\\1", p) for p in parts]
    return "".join(escaped).replace("|", r"\|")
