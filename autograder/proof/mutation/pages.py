"""Write the figures of the mutants as a page of the book, beside the page of the known mistakes."""

from __future__ import annotations

from autograder.proof.kill_matrix import link

PAGE = """---
myst:
  html_meta:
    description: Right answers with one fault each, and what the grader reports about them.
---
<!-- Written by `autograder verify --mutants {number} --seed {seed} --page book/mutants.md`. -->

# What the checks report about other mistakes

The previous page lists the mistakes that the grader names. Students also make other mistakes. So a program
changes the right answers of the bank by one edit at a time: it exchanges an operator, shifts an index by
one, drops a line, a cast or a `keepdims`, or replaces one name by another. Each such *mutant* is graded,
{number:,} in all.

{graded}

A reviewed list gives the reason why each accepted mutant is still right; the run fails if an accepted
mutant is not in the list. Accepted mutants that are not in the list: {not_listed}.

There are three kinds of rejected mutants. A mutant is *named* if the report names a mistake of the bank; the
name is *true* if that mistake gives the mutant's results in every case that the mutant fails. A mutant has a
*cause* if the report names the broken rule, the raised error, a wrong shape, a wrong dtype or a changed
input. The rest are *bare*: the report only shows two numbers that differ.

{explained}
"""
GRADED = ("mutants", "rejected", "accepted")
EXPLAINED = ("named", "truly_named", "with_a_cause", "bare")


def page(figures: dict[str, dict[str, int]], number: int, seed: int) -> str:
    """Return the page in MyST Markdown.

    Args:
        figures: the figures of each assignment and of all.
        number: the number of mutants that were requested.
        seed: the seed that drew them.
    """
    return PAGE.format(
        number=number,
        seed=seed,
        graded=_table(figures, GRADED),
        not_listed=figures["all"]["not_listed"],
        explained=_table(figures, EXPLAINED),
    )


def _table(figures: dict[str, dict[str, int]], columns: tuple[str, ...]) -> str:
    heads = " | ".join(column.replace("_", " ") for column in columns)
    lines = [f"| chapter | {heads} |", "|:--|" + "--:|" * len(columns)]
    for name, counts in figures.items():
        chapter = "**all**" if name == "all" else link(name)
        lines.append(f"| {chapter} | {' | '.join(f'{counts[column]:,}' for column in columns)} |")
    return "\n".join(lines)
