"""The class at a glance as a page: one file, without a script and without anything from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby
from pathlib import Path
from statistics import median
from urllib.parse import quote

from autograder import alike, exercises
from autograder.alike import Pair
from autograder.exercises import UnknownExerciseError
from autograder.export import in_order
from autograder.files import require_writable, write_if_changed
from autograder.grading.gradebook import Row
from autograder.items import FEWEST, Item
from autograder.layout import Course
from autograder.looks import KINDS, Look
from autograder.overview import Overview
from autograder.report import marked_up
from autograder.visible import visible

BARS = 10
"""Of the distribution: one for each tenth of the points."""
MOST_PAIRS = 50
"""So many pairs of near-identical code are shown."""


def write(course: Course, overview: Overview) -> Path:
    """Writes ``reports/<assignment>.html``."""
    require_writable(course.reports)
    path = course.reports / f"{overview.assignment}.html"
    write_if_changed(path, visible(as_html(overview)).encode())
    return path


def as_html(overview: Overview) -> str:
    """The page. All that came from students is escaped."""
    return _PAGE.format(
        title=escape(_title(overview.assignment)),
        summary=escape(overview.summary()),
        bars=_bars(overview),
        items=_table(
            ("exercise", "points", "full marks", "discrimination", "worth mending"),
            (_item(item) for item in overview.items),
        ),
        discrimination=escape(_about_discrimination(overview)),
        mistakes=_table(("students", "exercise", "mistake", "told", "to read again"), _mistakes(overview)),
        looks="".join(_looks(overview)) or "<p>None.</p>",
        scores=_scores(overview),
    )


def _title(assignment: str) -> str:
    try:
        count = len(exercises.names_of(assignment))
    except UnknownExerciseError:
        return assignment
    return f"{assignment}: {count} exercises"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of cells that are HTML already; on a narrow screen each row becomes a block of lines."""
    body = "".join(f"<tr>{''.join(map('<td data-is={!r}>{}</td>'.format, heads, row))}</tr>" for row in rows)
    head = "".join(f"<th>{head}</th>" for head in heads)
    whole = f"<table class=stack><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return whole if body else "<p>None.</p>"


def _bars(overview: Overview) -> str:
    """How many students have how large a part of the points."""
    shares = overview.shares
    if not shares:
        return ""
    counts = [0] * BARS
    for share in shares:
        counts[min(int(share * BARS), BARS - 1)] += 1
    bar = "<div><b>{}</b><i style='--part:{:.2f}'></i>{}</div>".format
    bars = "".join(bar(count or "", count / max(counts), 100 * n // BARS) for n, count in enumerate(counts))
    said = f"Distribution of points: median {median(shares):.0%}. By tenths: {', '.join(map(str, counts))}."
    return (
        f"<figure><div class=bars role=img aria-label='{said}'>{bars}</div>"
        "<figcaption>Students by tenths of the points, in % of what is graded</figcaption></figure>"
    )


def _item(item: Item) -> tuple[str, ...]:
    points = "" if item.mean is None else f" <small>{item.mean:.2f} of {item.max_score:g}</small>"
    waiting = f" {item.waiting} to grade by hand" if item.waiting else ""
    if item.discrimination is None:
        discrimination = f"<small>{escape(item.unknown)}</small>"
    else:
        discrimination = f"{item.discrimination:.2f}".replace("-", "&minus;")
    return (
        _name(item.exercise),
        f"{_part(item.share)}{points}{waiting}",
        _part(item.full_share),
        discrimination,
        "<br>".join(map(escape, item.worth_mending)),
    )


def _part(share: float | None) -> str:
    """A share as a bar and in per cent; nothing where there is none."""
    if share is None:
        return ""
    return f"<span class=part><i style='--part:{share:.2f}'></i></span> {share:.0%}"


def _name(exercise: str) -> str:
    """The name of an exercise or a mistake, which may break at its underscores."""
    return escape(exercise).replace("_", "_<wbr>")


def _about_discrimination(overview: Overview) -> str:
    most = max((item.graded for item in overview.items), default=0)
    if most < FEWEST:
        return f"For discrimination there are too few students here; it takes {FEWEST}."
    chance = max(item.by_chance for item in overview.items if item.graded == most)
    return (
        "Discrimination is the correlation of the points for an exercise with those for all the others. Near "
        "1, who does well elsewhere does well here; near 0, it tells nothing of the rest; below 0, something "
        "is odd about the exercise or about how it is graded. "
        f"With {most} students, up to {chance:.2f} either way may be chance."
    )


def _mistakes(overview: Overview) -> Iterator[tuple[str, ...]]:
    for one in overview.misconceptions:
        name = f"<code>{_name(one.name)}</code>"
        yield str(one.count), _name(one.exercise), name, marked_up(one.hint), _read(overview, one.exercise)
    for exercise, count in overview.unrecognised.items():
        yield str(count), _name(exercise), "not recognised", "", _read(overview, exercise)


def _read(overview: Overview, exercise: str) -> str:
    """The section that treats an exercise, as a link where the book is published."""
    section = overview.section(exercise)
    if section is None:
        return ""
    words = f"chapter {section.chapter}, <i>{escape(section.heading)}</i>"
    return f"<a href='{escape(section.url(overview.book))}'>{words}</a>" if overview.book else words


def _looks(overview: Overview) -> Iterator[str]:
    """The submissions to look at, a table for each kind of reason."""
    for kind, own in groupby(overview.looks, lambda look: look.kind):
        rows = [(escape(look.student), _why(overview, look)) for look in own]
        yield f"<h3>{KINDS[kind]}: {len(rows)}</h3>" + _table(("student", "why"), rows)
    if overview.alike:
        shown = overview.alike[:MOST_PAIRS]
        pairs = ((*map(escape, pair.students), _shared(pair)) for pair in shown)
        more = len(overview.alike) - len(shown)
        yield (
            f"<h3>Near-identical code: {len(overview.alike)}</h3><p>{escape(_about_alike(overview))}</p>"
            + _table(("student", "and", "share"), pairs)
            + (f"<p>{more} more with <code>autograder report --json</code>.</p>" if more else "")
        )


def _why(overview: Overview, look: Look) -> str:
    """A reason, where it is about a line of code with a link to the graded notebook."""
    why = marked_up(look.why)
    if not look.place:
        return why
    graded = f"../autograded/{look.student}/{overview.assignment}/{look.notebook}.ipynb"
    link = f"<a href='{escape(quote(graded))}'>{escape(look.place)}</a>"
    return why.replace(escape(look.place), link, 1)


def _about_alike(overview: Overview) -> str:
    return (
        "A hint, never a verdict: look at both, and ask. Compared is how statements are built; names, "
        "numbers, comments, layout and the order of statements are not. What the release gives, and what "
        f"more than {alike.common_from(len(overview.rows))} students wrote, does not count."
    )


def _shared(pair: Pair) -> str:
    told = (
        f"{_name(one.exercise)}: {one.share:.0%} <small>({one.fragments} fragments)</small>"
        for one in pair.exercises
    )
    return "<br>".join(told)


def _scores(overview: Overview) -> str:
    names = in_order(overview.rows[0])
    head = "".join(f"<th>{_name(name)}</th>" for name in names)
    body = "".join(
        f"<tr><th>{escape(row.student)}</th><td class=n><b>{row.total:g}</b></td>"
        + "".join(_score_cell(row, name) for name in names)
        + "</tr>"
        for row in overview.rows
    )
    return f"<table><thead><tr><th>student</th><th>total</th>{head}</tr></thead><tbody>{body}</tbody></table>"


def _score_cell(row: Row, name: str) -> str:
    if name not in row.scores:
        return "<td></td>"
    waits = name in row.needs_manual_grade
    share = row.scores[name] / row.max_scores[name] if row.max_scores[name] else 1.0
    kind = "wait" if waits else "full" if share >= 1 else "none" if share == 0 else "some"
    return f"<td class='n {kind}'>{'?' if waits else f'{row.scores[name]:g}'}</td>"


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --accent: #2b6cb0; --line: #d0d7de; --soft: #59636e; --full: #1a7f3722;
  --none: #cf222e22; --some: #bf870022; --wait: #8250df22; }}
@media (prefers-color-scheme: dark) {{ :root {{ --accent: #6cb0f5; --line: #3d444d; --soft: #9198a1; }} }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }}
h1, td, th {{ overflow-wrap: break-word; }}
td[data-is=student], td[data-is=and] {{ overflow-wrap: anywhere; min-width: 7rem; }}
h1 {{ margin-bottom: 0; }} h2 {{ margin-top: 2.5rem; }} h3 {{ margin: 1.5rem 0 .3rem; }}
p {{ max-width: 45rem; }}
small, figcaption, thead {{ color: var(--soft); }}
a {{ color: var(--accent); }}
table {{ border-collapse: collapse; }}
th, td {{ padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }}
th {{ font-weight: 600; }}
.n {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
.full {{ background: var(--full); }} .none {{ background: var(--none); }} .some {{ background: var(--some); }}
.wait {{ background: var(--wait); }}
.part {{ display: inline-block; width: 5rem; height: .7rem; border: 1px solid var(--line); }}
.part i {{ display: block; height: 100%; width: calc(var(--part) * 100%); background: var(--accent); }}
figure {{ margin: 1.5rem 0; max-width: 40rem; }}
.bars {{ display: flex; align-items: flex-end; gap: 3px; text-align: center; font-size: .85rem; }}
.bars div {{ flex: 1; }}
.bars i {{ display: block; height: calc(var(--part) * 8rem); background: var(--accent);
  border-bottom: 1px solid var(--accent); }}
.scroll {{ overflow-x: auto; }}
.scroll th:first-child {{ position: sticky; left: 0; background: Canvas; min-width: 7rem; }}
@media (max-width: 45rem) {{
  .stack thead {{ display: none; }}
  .stack, .stack tbody, .stack tr, .stack td {{ display: flow-root; }}
  .stack tr {{ border-bottom: 1px solid var(--line); padding: .5rem 0; }}
  .stack td {{ border: 0; padding: .1rem 0 .1rem 8.5rem; min-height: 1.5em; }}
  .stack td:empty {{ display: none; }}
  .stack td::before {{ content: attr(data-is); float: left; margin-left: -8.5rem; width: 8rem;
    color: var(--soft); }}
}}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{summary}</p>
{bars}
<h2>Exercises, hardest first</h2>
{items}
<p>{discrimination}</p>
<h2>What was misunderstood</h2>
{mistakes}
<h2>Worth a look</h2>
{looks}
<h2>Scores</h2>
<p>A question mark waits for a person.</p>
<div class=scroll>{scores}</div>
</body>
</html>
"""
