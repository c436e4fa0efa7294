"""Write the figures of the mutants as a page of the book, beside the page of the known mistakes."""

from __future__ import annotations

from autograder.proof.kill_matrix import link
from autograder.proof.mutation.trials import Tried, by_assignment

HEAD = """---
myst:
  html_meta:
    description: Right answers with one fault each, and what the grader says of them.
---
<!-- Written by `autograder verify --mutants {number} --seed {seed} --page book/mutants.md`. -->

# What the checks say of other mistakes

The page before this one has the mistakes that the grader knows. Students also make others. So the right
answers of the bank are changed by a program, one fault at a time: an operator exchanged, an index off by one,
a line, a cast or a `keepdims` dropped, one name written for another. Each such *mutant* is graded, {number}
in all.

A mutant that is accepted is still right, and a reviewed list says why; the run fails if one is not in the
list. A mutant that is rejected has one of three explanations. It is *named* if the report names a mistake of
the bank; the name is *true* if that mistake gives the mutant's own results in every case that the mutant
fails. It has a *cause* if the report says which rule is broken or which error was raised, or names a wrong
shape, a wrong dtype or a changed input. The rest are *bare*: the report only shows two numbers that differ.

| chapter | mutants | rejected | accepted | not in the list | named | truly named | with a cause | bare |
|:--|--:|--:|--:|--:|--:|--:|--:|--:|
"""


def page(tried: list[Tried], number: int, seed: int) -> str:
    """Return the page in MyST Markdown.

    Args:
        tried: the mutants with their reports.
        number: the number of mutants that were requested.
        seed: the seed that drew them.
    """
    figures = by_assignment(tried)
    linked = {name: "**all**" if name == "all" else link(name) for name in figures}
    rows = [
        f"| {linked[name]} | {' | '.join(map(str, counts.values()))} |" for name, counts in figures.items()
    ]
    return HEAD.format(number=number, seed=seed) + "\n".join(rows) + "\n"
