"""The class at a glance: scores, what was hard, what was misunderstood, what needs a look."""

from __future__ import annotations

import html
import io
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from autograder import exercises
from autograder.errors import BadInputError
from autograder.exercises import UnknownExerciseError
from autograder.export import in_order
from autograder.files import require_writable, write_if_changed
from autograder.grading import gradebook, written
from autograder.grading.batch import problems
from autograder.grading.gradebook import Row
from autograder.layout import Course


@dataclass(frozen=True)
class Misconception:
    """A mistake of the bank, with how many made it and what they were told."""

    exercise: str
    name: str
    count: int
    hint: str


@dataclass(frozen=True)
class Hardness:
    """How a class did on one graded cell."""

    exercise: str
    mean: float | None
    """Of those that are graded; None while all wait for a person."""
    max_score: float
    full_marks: int
    waiting: int

    @property
    def share(self) -> float:
        return self.mean / self.max_score if self.mean is not None and self.max_score else 1.0


@dataclass(frozen=True)
class Look:
    """A submission that a teacher should look at, and why."""

    student: str
    why: str


@dataclass(frozen=True)
class Overview:
    """One assignment's class."""

    assignment: str
    rows: tuple[Row, ...]
    hardest: tuple[Hardness, ...]
    misconceptions: tuple[Misconception, ...]
    unrecognised: dict[str, int]
    """By exercise, how many made a mistake that is none of the bank."""
    looks: tuple[Look, ...]

    @property
    def totals(self) -> list[float]:
        return [row.total for row in self.rows]

    @property
    def max_total(self) -> float:
        return max(row.max_total for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """The overview as JSON data."""
        return {
            "assignment": self.assignment,
            "students": len(self.rows),
            "mean": round(mean(self.totals), 4),
            "median": median(self.totals),
            "max_score": self.max_total,
            "scores": [
                {
                    "student": row.student,
                    "scores": row.scores,
                    "total": row.total,
                    "needs_manual_grade": list(row.needs_manual_grade),
                    "late_seconds": row.late_seconds,
                }
                for row in self.rows
            ],
            "exercises": [asdict(one) for one in self.hardest],
            "misconceptions": [asdict(one) for one in self.misconceptions],
            "unrecognised_mistakes": self.unrecognised,
            "needs_a_look": [asdict(one) for one in self.looks],
        }


def of(course: Course, assignment: str) -> Overview:
    """The overview of an assignment, from the gradebook and the graded notebooks.

    Raises:
        BadInputError: nothing of it is graded.
    """
    rows = gradebook.read(course, assignment)
    if not rows:
        raise BadInputError(f"nothing of {assignment} is graded yet. Run: autograder grade --submissions DIR")
    told = {
        row.student: [
            written.reports(path)
            for path in sorted((course.autograded / row.student / assignment).glob("*.ipynb"))
        ]
        for row in rows
    }
    reports = {
        student: {k: v for notebook in notebooks for k, v in notebook.get("reports", {}).items()}
        for student, notebooks in told.items()
    }
    totals = {row.student: row.total for row in rows}
    looks = [
        Look(
            student,
            f"{why}. Keeps {totals[student]:g} from the earlier version" if student in totals else why,
        )
        for student, why in problems(course, assignment).items()
    ]
    for student, notebooks in told.items():
        looks += [Look(student, why) for notebook in notebooks for why in notebook.get("remarks", [])]
        looks += _stopped(student, reports[student])
    return Overview(
        assignment,
        tuple(rows),
        _hardest(rows),
        _misconceptions(list(reports.values())),
        _unrecognised(rows[0], list(reports.values())),
        tuple(sorted(looks, key=lambda look: (look.student, look.why))),
    )


def _stopped(student: str, reports: dict[str, Any]) -> list[Look]:
    """The exercises of which no case could be tried, those with the same reason together."""
    reasons: dict[str, list[str]] = {}
    for grade_id, report in reports.items():
        if report["status"] in ("forbidden", "stopped"):
            reasons.setdefault(report["message"], []).append(grade_id)
    return [Look(student, f"{', '.join(where)}: {why}") for why, where in reasons.items()]


def _hardest(rows: list[Row]) -> tuple[Hardness, ...]:
    """The graded cells, those first on which the class did worst; last those that wait for a person."""
    found = []
    for name in in_order(rows[0]):
        own = [row for row in rows if name in row.scores]
        scores = [row.scores[name] for row in own if name not in row.needs_manual_grade]
        highest = own[0].max_scores[name]
        waiting = sum(name in row.needs_manual_grade for row in own)
        average = mean(scores) if scores else None
        found.append(Hardness(name, average, highest, sum(s >= highest for s in scores), waiting))
    return tuple(sorted(found, key=lambda one: (one.waiting > 0, one.share)))


def _misconceptions(students: list[dict[str, Any]]) -> tuple[Misconception, ...]:
    """The mistakes found, the most common first; each student counts once for each."""
    counts: Counter[tuple[str, str]] = Counter()
    hints: dict[tuple[str, str], str] = {}
    for reports in students:
        for grade_id, report in reports.items():
            failures = [c["failure"] for c in report["criteria"] if c["failure"]]
            found = {f["misconception"]: f["hint"] for f in failures if f["misconception"]}
            counts.update((grade_id, name) for name in found)
            hints |= {(grade_id, name): hint for name, hint in found.items()}
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return tuple(Misconception(where, name, count, hints[where, name]) for (where, name), count in ranked)


def _unrecognised(row: Row, students: list[dict[str, Any]]) -> dict[str, int]:
    """How many failed an exercise in a way that no mistake of the bank explains, where any did."""
    counts: Counter[str] = Counter()
    for reports in students:
        for grade_id, report in reports.items():
            failures = [c["failure"] for c in report["criteria"] if c["failure"]]
            if failures and not any(f["misconception"] for f in failures):
                counts[grade_id] += 1
    return {name: counts[name] for name in in_order(row) if counts[name]}


def write(course: Course, overview: Overview) -> Path:
    """Writes ``reports/<assignment>.html``: one file that needs no other."""
    require_writable(course.reports)
    path = course.reports / f"{overview.assignment}.html"
    write_if_changed(path, as_html(overview).encode())
    return path


def as_html(overview: Overview) -> str:
    """The page. All that came from students is escaped; there is no script and nothing from elsewhere."""
    say = html.escape
    names = in_order(overview.rows[0])
    head = "".join(f"<th>{say(name).replace('_', '_<wbr>')}</th>" for name in names)
    table = "".join(
        f"<tr><td>{say(row.student)}</td><td class=n><b>{row.total:g}</b></td>"
        + "".join(_score_cell(row, name) for name in names)
        + f"<td>{'late' if row.late_seconds else ''}</td></tr>"
        for row in overview.rows
    )
    hard = "".join(
        f"<tr><td>{say(one.exercise)}</td>{_mean_cells(one)}"
        f"<td class=n>{one.full_marks} of {len(overview.rows)}</td>"
        f"<td>{f'{one.waiting} to grade by hand' if one.waiting else ''}</td></tr>"
        for one in overview.hardest
    )
    mistakes = "".join(
        f"<tr><td class=n>{one.count}</td><td>{say(one.exercise)}</td><td><code>{say(one.name)}</code></td>"
        f"<td>{say(one.hint)}</td></tr>"
        for one in overview.misconceptions
    ) + "".join(
        f"<tr><td class=n>{count}</td><td>{say(name)}</td><td>not recognised</td><td></td></tr>"
        for name, count in overview.unrecognised.items()
    )
    looks = "".join(f"<tr><td>{say(one.student)}</td><td>{say(one.why)}</td></tr>" for one in overview.looks)
    waiting = sum(bool(row.needs_manual_grade) for row in overview.rows)
    return _PAGE.format(
        title=say(_title(overview.assignment)),
        students="1 student" if len(overview.rows) == 1 else f"{len(overview.rows)} students",
        median=f"{median(overview.totals):g}",
        mean=f"{mean(overview.totals):.1f}",
        highest=f"{overview.max_total:g}",
        waiting=f", {waiting} wait{'s' if waiting == 1 else ''} for a written answer to be graded by hand"
        if waiting
        else "",
        plot=plot(overview),
        hard=hard,
        mistakes=_or_none(
            mistakes, "<tr><th>students</th><th>exercise</th><th>mistake</th><th>told</th></tr>"
        ),
        looks=_or_none(looks, "<tr><th>student</th><th>why</th></tr>"),
        head=head,
        table=table,
    )


def _title(assignment: str) -> str:
    try:
        count = len(exercises.of_assignment(assignment))
    except UnknownExerciseError:
        return assignment
    return f"{assignment}: {count} exercises"


def _or_none(rows: str, head: str) -> str:
    return f"<table>{head}{rows}</table>" if rows else "<p>None.</p>"


def _mean_cells(one: Hardness) -> str:
    """The mean as a number and as a bar; neither while all wait for a person."""
    if one.mean is None:
        return f"<td class=n>? of {one.max_score:g}</td><td></td>"
    return (
        f"<td class=n>{one.mean:.2f} of {one.max_score:g}</td>"
        f"<td><span class=bar><span style='width:{100 * one.share:.0f}%'></span></span></td>"
    )


def _score_cell(row: Row, name: str) -> str:
    if name not in row.scores:
        return "<td></td>"
    waits = name in row.needs_manual_grade
    share = row.scores[name] / row.max_scores[name] if row.max_scores[name] else 1.0
    kind = "wait" if waits else "full" if share >= 1 else "none" if share == 0 else "part"
    return f"<td class='n {kind}'>{'?' if waits else f'{row.scores[name]:g}'}</td>"


_INK, _FILL = "#0a0a0b", "#0a0a0c"
"""Colours that stand for the page's own in the plot, so that it suits light and dark."""


def plot(overview: Overview) -> str:
    """The distribution of the totals as an inline SVG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator

    style: Any = {
        "svg.hashsalt": "overview",
        "svg.fonttype": "none",
        "font.size": 11,
        **{f"{part}.color": _INK for part in ("text", "xtick", "ytick")},
        "axes.edgecolor": _INK,
        "axes.labelcolor": _INK,
    }
    with pyplot.rc_context(style):
        figure, axes = pyplot.subplots(figsize=(7, 2.6))
        bins = [overview.max_total * i / 20 for i in range(21)]
        axes.hist(overview.totals, bins=bins, color=_FILL, rwidth=0.88)
        axes.set_xlim(0, overview.max_total)
        axes.set_xlabel("points")
        axes.set_ylabel("students")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines[["top", "right"]].set_visible(False)
        figure.tight_layout()
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
        pyplot.close(figure)
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor").replace(_FILL, "var(--accent)")
    said = f"Distribution of points: median {median(overview.totals):g} of {overview.max_total:g}"
    return svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(said)}"', 1)


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --accent: #2b6cb0; --line: #d0d7de; --full: #1a7f3722; --none: #cf222e22;
  --part: #bf870022; --wait: #8250df22; }}
@media (prefers-color-scheme: dark) {{ :root {{ --accent: #6cb0f5; --line: #3d444d; }} }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ margin-bottom: 0; }} h2 {{ margin-top: 2.5rem; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left; }}
td {{ vertical-align: top; }}
.n {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
.full {{ background: var(--full); }} .none {{ background: var(--none); }} .part {{ background: var(--part); }}
.wait {{ background: var(--wait); }}
.bar {{ display: inline-block; width: 8rem; height: .7rem; border: 1px solid var(--line); }}
.bar span {{ display: block; height: 100%; background: var(--accent); }}
svg {{ max-width: 100%; height: auto; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{students}, median {median} and mean {mean} of {highest} points{waiting}.</p>
{plot}
<h2>Hardest first</h2>
<div class=scroll><table>
<tr><th>exercise</th><th>mean</th><th></th><th>full marks</th><th></th></tr>
{hard}</table></div>
<h2>What was misunderstood</h2>
<div class=scroll>{mistakes}</div>
<h2>Worth a look</h2>
<div class=scroll>{looks}</div>
<h2>Scores</h2>
<p>A question mark waits for a person.</p>
<div class=scroll><table>
<tr><th>student</th><th>total</th>{head}<th></th></tr>
{table}</table></div>
</body>
</html>
"""
