"""What the commands show a person: tables and remarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from autograder.grading.batch import Batch
    from autograder.overview import Overview
    from autograder.verify import Proof


def batch(done: Batch, out: Console, err: Console) -> None:
    """A run of the grader: figures by assignment on `out`, what needs a person on `err`."""
    told = done.as_dict()
    title = f"{told['graded']} graded, {told['unchanged']} unchanged in {done.seconds:.1f} s"
    table = Table(title=title)
    for name in ("assignment", "graded", "unchanged", "median", "of, graded automatically", "problems"):
        table.add_column(name, justify="left" if name == "assignment" else "right")
    for name, figures in told["assignments"].items():
        table.add_row(
            name,
            str(figures["graded"]),
            str(figures["unchanged"]),
            f"{figures['median']:g}",
            f"{figures['max_score']:g}",
            str(figures["problems"]),
        )
    if told["assignments"]:
        out.print(table)
    else:
        out.print(title)
    marked = [
        ("[yellow]look[/]", f"{g.student}, {g.assignment}: {r}") for g in done.graded for r in g.remarks
    ]
    marked += [("[yellow]note[/]", remark) for remark in done.remarks]
    marked += [("[bold red]not graded[/]", f"{p.student}, {p.assignment}: {p.told}") for p in done.problems]
    marked += [("[bold red]not written[/]", where) for where in done.unwritten]
    for mark, text in marked:
        err.print(f"{mark}: {escape(text)}", soft_wrap=True)
    if any(p.kept is None for p in done.problems):
        err.print("Who was not graded has no points yet, which is not zero.", soft_wrap=True)
    if done.unwritten:
        err.print("The points are in the gradebook. Give yourself permission to write there.", soft_wrap=True)
    if done.problems or done.unwritten:
        err.print("Put this right and run it again.", soft_wrap=True)


def overview(one: Overview, out: Console) -> None:
    """A class: the exercises, the mistakes, the submissions to look at."""
    told = one.as_dict()
    students = "1 student" if told["students"] == 1 else f"{told['students']} students"
    table = Table(
        title=f"{one.assignment}: {students}, median {told['median']:g}, "
        f"mean {told['mean']:.1f} of {told['max_score']:g}"
    )
    for name in ("hardest first", "mean", "of", "full marks"):
        table.add_column(name, justify="left" if name == "hardest first" else "right")
    for hard in one.hardest:
        waiting = f" ({hard.waiting} to grade by hand)" if hard.waiting else ""
        table.add_row(
            hard.exercise + waiting,
            "" if hard.mean is None else f"{hard.mean:.2f}",
            f"{hard.max_score:g}",
            str(hard.full_marks),
        )
    out.print(table)
    if one.misconceptions:
        table = Table(title="what was misunderstood", show_lines=True)
        for name in ("students", "exercise", "mistake", "what they were told"):
            table.add_column(name, justify="right" if name == "students" else "left")
        for mistake in one.misconceptions[:10]:
            table.add_row(str(mistake.count), mistake.exercise, mistake.name, escape(mistake.hint))
        out.print(table)
        if len(one.misconceptions) > 10:
            out.print(f"and {len(one.misconceptions) - 10} more in the page")
    for exercise, count in one.unrecognised.items():
        out.print(f"{exercise}: {count} with a mistake that was not recognised", soft_wrap=True)
    for look in one.looks:
        out.print(f"[yellow]look:[/] {escape(f'{look.student}: {look.why}')}", soft_wrap=True)


def proof(proof: Proof, out: Console) -> None:
    """The kill matrix, and how the notebooks were graded."""
    table = Table(title="each mistake is rejected and named, each right style is accepted")
    for name in ("exercise", "rejected", "named", "accepted", "not as it should"):
        table.add_column(name, justify="right" if name in ("rejected", "named", "accepted") else "left")
    for exercise in dict.fromkeys(entry.exercise for entry in proof.entries):
        own = [entry for entry in proof.entries if entry.exercise == exercise]
        mistakes, styles = [e for e in own if e.is_misconception], [e for e in own if not e.is_misconception]
        wrong = [
            *(f"{e.name} passes" for e in mistakes if not e.as_it_should),
            *(
                f"{e.name} told as {e.told[0] or 'none'}"
                for e in mistakes
                if e.as_it_should and not e.diagnosed
            ),
            *(f"{e.name} does not pass" for e in styles if not e.as_it_should),
        ]
        table.add_row(
            exercise,
            f"{sum(e.as_it_should for e in mistakes)}/{len(mistakes)}",
            f"{sum(e.diagnosed for e in mistakes)}/{len(mistakes)}",
            f"{sum(e.as_it_should for e in styles)}/{len(styles)}",
            escape("; ".join(wrong)),
        )
    out.print(table)
    for notebook in proof.notebooks:
        mark = "[green]✓[/]" if notebook.as_it_should else "[red]✗[/]"
        note = f" ({notebook.note})" if notebook.note else ""
        out.print(
            f"{mark} {notebook.assignment}: the solution has {notebook.solution_score:g} of "
            f"{notebook.max_score:g} points, the blank notebook {notebook.blank_score:g}{escape(note)}",
            soft_wrap=True,
        )
    told = proof.as_dict()
    share = told["diagnosed"] / max(1, told["misconceptions"])
    out.print(f"{share:.0%} of the mistakes are told by name.")
    out.print("[green]It holds.[/]" if proof.holds else "[bold red]It does not hold.[/]")
