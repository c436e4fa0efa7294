"""Print the tables and remarks of the commands."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from autograder.commands.console import plural
from autograder.commands.terminal import escape

if TYPE_CHECKING:
    from autograder.grading.batch import Batch, Change
    from autograder.proof.mutation.trials import Tried
    from autograder.proof.verify import Proof
    from autograder.reports.class_report import ClassReport

WIDEST = 100
"""The maximum width of a hint on a wide terminal."""
MOST_MISTAKES = 10
"""The terminal shows at most this many mistakes or pairs; the page has all of them."""


def batch(done: Batch, out: Console, err: Console) -> None:
    """Print a run of the grader: figures by assignment on `out`, tasks for the teacher on `err`."""
    result = done.as_dict()
    title = f"{result['graded']} graded, {result['unchanged']} unchanged in {done.seconds:.1f} s"
    table = Table(title=title)
    table.add_column("assignment", no_wrap=True)
    for name in ("graded", "unchanged", "median", "problems"):
        table.add_column(name, justify="right")
    for name, figures in result["assignments"].items():
        table.add_row(
            name,
            str(figures["graded"]),
            str(figures["unchanged"]),
            "" if figures["median"] is None else f"{figures['median']:g} of {figures['max_score']:g}",
            str(figures["problems"]),
        )
    if result["assignments"]:
        out.print(table)
    else:
        out.print(title)
    for line in _changes([change for change in done.changes if change.same_notebook]):
        out.print(f"[cyan]changed[/]: {escape(line)}", soft_wrap=True)
    marked = [
        ("[yellow]look[/]", f"{g.student}, {g.assignment}: {r}") for g in done.graded for r in g.remarks
    ]
    marked += [("[yellow]note[/]", remark) for remark in done.remarks]
    marked += [
        ("[bold red]not graded[/]", f"{p.student}, {p.assignment}: {p.message}") for p in done.problems
    ]
    marked += [("[bold red]not written[/]", path) for path in done.unwritten]
    for mark, text in marked:
        err.print(f"{mark}: {escape(text)}", soft_wrap=True)
    if any(p.kept is None for p in done.problems):
        err.print(
            "Students without a grade have no points yet; they do not have zero points.", soft_wrap=True
        )
    if done.unwritten:
        err.print("The points are in the gradebook. Make the folders above writable.", soft_wrap=True)
    if done.problems or done.unwritten:
        err.print("Put these problems right, then run the same command again.", soft_wrap=True)


SHOWN = 5
"""A line names at most this many students; --json has all of them."""


def _changes(changes: list[Change]) -> Iterator[str]:
    """Yield a line for each exercise and direction in which unchanged notebooks got other points."""
    groups: dict[tuple[str, str, str], list[Change]] = {}
    for change in changes:
        direction = "new" if change.before is None else "up" if change.after > change.before else "down"
        groups.setdefault((change.assignment, change.exercise, direction), []).append(change)
    for (assignment, exercise, direction), group in sorted(groups.items()):
        names = ", ".join(
            f"{change.student} {'' if change.before is None else f'{change.before:g} to '}{change.after:g}"
            for change in group[:SHOWN]
        )
        more = f" and {len(group) - SHOWN} more" if len(group) > SHOWN else ""
        count = plural(len(group), "submission that did not change", "submissions that did not change")
        yield f"{assignment}, {exercise}: {direction} for {count} ({names}{more})"


def overview(report: ClassReport, out: Console) -> None:
    """Print a report: the exercises, the mistakes, the submissions to look at.

    A terminal of 72 columns cuts no word.
    """

    def tell(text: str) -> None:
        out.print(text, soft_wrap=not out.is_terminal)

    tell(f"[bold]{report.assignment}[/]: {escape(report.summary())}")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("hardest first", "points", "full marks", "discrimination"):
        table.add_column(name, justify="left" if name == "hardest first" else "right", no_wrap=True)
    for item in report.items:
        figures = (
            f"{item.waiting} wait" if item.share is None else f"{item.share:.0%}",
            "" if item.full_share is None else f"{item.full_share:.0%}",
            "" if item.discrimination is None else f"{item.discrimination:.2f}",
        )
        table.add_row(escape(item.exercise), *figures)
    out.print(table)
    for item in report.items:
        for flaw in item.worth_mending:
            tell(f"[yellow]worth mending:[/] {escape(item.exercise)}: {escape(flaw)}")
    for mistake in report.misconceptions[:MOST_MISTAKES]:
        tell(
            f"[bold]{mistake.count} of {len(report.rows)}[/] {escape(f'{mistake.exercise}: {mistake.name}')}"
        )
        section = report.section(mistake.exercise)
        read = f" ({section.says})" if section else ""
        hint = textwrap.wrap(mistake.hint + read, min(out.width, WIDEST) - 4)
        out.print(textwrap.indent("\n".join(hint), "    "), markup=False, soft_wrap=True)
    if len(report.misconceptions) > MOST_MISTAKES:
        tell(f"and {len(report.misconceptions) - MOST_MISTAKES} more mistakes on the page")
    for exercise, count in report.unrecognised.items():
        tell(f"{escape(exercise)}: answers with a mistake that was not recognised: {count}")
    for why, names in report.absent_by_reason().items():
        tell(f"[yellow]{escape(why)}:[/] {len(names)}: {escape(', '.join(names))}")
    for look in report.review_queue:
        tell(f"[yellow]look:[/] {escape(f'{look.student}: {look.kind}: {look.why}')}")
    for pair in report.similar_pairs[:MOST_MISTAKES]:
        shared = ", ".join(f"{part.exercise} {part.share:.0%}" for part in pair.exercises)
        tell(f"[yellow]look:[/] {escape(' and '.join(pair.students))}: near-identical code: {escape(shared)}")
    if len(report.similar_pairs) > MOST_MISTAKES:
        tell(
            f"and {len(report.similar_pairs) - MOST_MISTAKES} more pairs with near-identical code on the page"
        )


def proof(proof: Proof, out: Console) -> None:
    """Print the kill matrix and the points of the solution notebooks and the blank notebooks."""
    table = Table(title="known mistakes and known right answers")
    for name in ("exercise", "rejected", "named", "accepted", "not as expected"):
        table.add_column(name, justify="right" if name in ("rejected", "named", "accepted") else "left")
    for exercise in dict.fromkeys(entry.exercise for entry in proof.entries):
        entries = [entry for entry in proof.entries if entry.exercise == exercise]
        mistakes, styles = (
            [e for e in entries if e.is_misconception],
            [e for e in entries if not e.is_misconception],
        )
        wrong = [
            *(f"{e.name} passes" for e in mistakes if not e.as_expected),
            *(
                f"{e.name} gets the hint of {e.named[0] or 'no mistake'}"
                for e in mistakes
                if e.as_expected and not e.diagnosed
            ),
            *(f"{e.name} gets points that do not fit its gravity" for e in mistakes if not e.weighed),
            *(f"{e.name} does not pass" for e in styles if not e.as_expected),
        ]
        table.add_row(
            exercise,
            f"{sum(e.as_expected for e in mistakes)}/{len(mistakes)}",
            f"{sum(e.diagnosed for e in mistakes)}/{len(mistakes)}",
            f"{sum(e.as_expected for e in styles)}/{len(styles)}",
            escape("; ".join(wrong)),
        )
    out.print(table)
    for notebook in proof.notebooks:
        mark = "[green]✓[/]" if notebook.as_expected else "[red]✗[/]"
        note = f" ({notebook.note})" if notebook.note else ""
        out.print(
            f"{mark} {notebook.assignment}: the solution has {notebook.solution_score:g} of "
            f"{notebook.max_score:g} points, the blank notebook {notebook.blank_score:g}{escape(note)}",
            soft_wrap=True,
        )
    figures = proof.as_dict()
    out.print(f"{figures['diagnosed']} of {figures['misconceptions']} mistakes are named.")
    out.print(
        "[green]Everything is as expected.[/]"
        if proof.holds
        else "[bold red]Not everything is as expected.[/]"
    )


def mutants(tried: list[Tried], out: Console) -> None:
    """Print the results of the mutants by assignment, then each mutant that a person should look at."""
    from autograder.proof.mutation.trials import by_assignment

    table = Table(title="right answers with one fault each", box=None, padding=(0, 1, 0, 0))
    table.add_column("assignment", no_wrap=True)
    for name in ("mutants", "rejected", "accepted", "unlisted", "named", "truly", "cause", "bare"):
        table.add_column(name, justify="right", no_wrap=True)
    for assignment, figures in by_assignment(tried).items():
        table.add_row(assignment, *map(str, figures.values()))
    out.print(table)
    out.print(
        "unlisted: accepted, but not in the list of right mutants. named: the report names a known mistake; "
        "truly: that mistake gives the mutant's own results. cause: the report names the broken rule, error, "
        "shape or dtype. bare: the report shows only two numbers that differ."
    )
    for trial in tried:
        if verdict := trial.concern:
            named = f" ({' or '.join(trial.named)})" if trial.named else ""
            about = f"{named}: {trial.mutant.exercise}, {trial.mutant.style}: {trial.mutant.change}"
            out.print(f"[yellow]{verdict}[/]{escape(about)}", soft_wrap=True)
