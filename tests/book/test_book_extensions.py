"""The book's extensions one by one, and that each mistake in a page is a warning."""

from __future__ import annotations

import doctest
import importlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import book_paths  # noqa: F401, makes tfbook importable
import pytest
import tfbook
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils
from tfbook import anywidget, exercises, quiz, widgets

WIDGET_JS = "export default { render({ model, el }) { el.dataset.values = '{}'; } };\n"
WIDGET_PY = """
from matplotlib.figure import Figure
STATE = {"x": 1}
def compute(state): return {"x": state["x"]}
def picture(state):
    figure = Figure(figsize=(1, 1))
    figure.text(0, 0, str(state["x"]))
    return figure
"""
NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Chapter\n", "## Softmax\n"]},
        {"cell_type": "code", "metadata": {"nbgrader": {"solution": True, "grade": False}}, "source": []},
        {
            "cell_type": "code",
            "metadata": {
                "nbgrader": {"grade": True, "points": 3.5, "grade_id": "a"},
                "course": {"minutes": 15, "difficulty": "medium"},
            },
            "source": ["check(softmax)"],
        },
        {
            "cell_type": "markdown",
            "metadata": {"nbgrader": {"grade": True, "solution": True, "points": 2, "grade_id": "b"}},
            "source": ["## What do you see?"],
        },
    ]
}
GOOD_QUIZ = """question: Which $x$?
options:
  - {text: one, right: true, why: Because *it is*.}
  - {text: two, why: No.}
"""

Build = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def build_page(tmp_path: Path, packages: None, cut_fonts: Path) -> Build:
    """Builds one page by the book's extensions, warnings as errors: exit code, warnings, HTML."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "fonts").symlink_to(cut_fonts)
    (tmp_path / "widgets").mkdir()
    (tmp_path / "widgets" / "dial.js").write_text(WIDGET_JS)
    (tmp_path / "widgets" / "dial.py").write_text(WIDGET_PY)
    (tmp_path / "notebooks" / "ch00").mkdir(parents=True)
    (tmp_path / "notebooks" / "ch00" / "ch00.ipynb").write_text(json.dumps(NOTEBOOK))
    (tmp_path / "dot.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    settings: dict[str, Any] = {
        "extensions": ["myst_parser", "tfbook"],
        "myst_enable_extensions": ["dollarmath", "colon_fence"],
        "anywidget_folder": "widgets",
        "katex_macros": {r"\R": r"\mathbb{R}"},
        "nitpicky": True,
        "html_theme": "basic",
        "numfig": True,
        "math_numfig": True,
    }

    def run(text: str) -> tuple[int, str, str]:
        (tmp_path / "index.md").write_text(text)
        warnings = io.StringIO()
        with patch_docutils(), docutils_namespace():
            app = Sphinx(
                str(tmp_path), None, str(tmp_path / "out" / "html"), str(tmp_path / "out" / "trees"), "html",
                settings, status=None, warning=warnings, freshenv=True, warningiserror=True, keep_going=True,
            )  # fmt: skip
            app.build()
        return app.statuscode, warnings.getvalue(), (tmp_path / "out" / "html" / "index.html").read_text()

    return run


GOOD = f"""---
chapter: 7
---
# Page

$\\R$ and

$$ x^2 $$ (eq-x)

## Section

{{eq}}`eq-x` ![a dot](dot.svg)

```{{quiz}}
{GOOD_QUIZ}```

:::{{predict}} Does $x$ grow?
:choices: yes | no, *never*
It does.
:::

```{{anywidget}} dial
:alt: a dial that shows one
:caption: A dial. (1) Turn $x$. (2) Turn it *back*.
{{"x": 3}}
```

```{{exercises}} ch00
```
"""


@pytest.mark.slow
def test_a_good_page_builds_without_a_warning(build_page: Build) -> None:
    status, warnings, html = build_page(GOOD)
    assert (status, warnings) == (0, "")
    assert "<math" in html
    assert "MathJax" not in html
    assert html.count("<details") == 3
    assert html.count('type="radio" name="predict-1"') == 2
    assert "<em>never</em>" in html
    assert 'data-key="index:does-x-grow"' in html
    assert '<script defer="defer" src="_static/predict.js' in html
    assert 'data-initial="{&quot;x&quot;: 3}"' in html
    assert 'alt="a dial that shows one"' in html
    assert 'aria-label="Widget: dial"' in html
    assert re.search(r"<figcaption>\s*<p>A dial.</p>\s*<ol", html)
    assert len(re.findall(r"<li><p>Turn ", html)) == 2
    assert "widgets/widget_host.js" in html
    assert ">3.5<" in html
    assert "<strong>5.5</strong>" in html


@pytest.mark.slow
def test_punctuation_stays_in_the_last_box_of_its_formula(build_page: Build) -> None:
    _, _, html = build_page("# Page\n\nLet ($x$), $y$ and $a + b$. Then $z$.\n")
    text = re.sub(r"<[^>]*>", "", re.sub(r'<span class="katex-mathml">.*?</math></span>', "", html))
    assert "Let (x), y and a+b. Then z." in text
    assert html.count('<span class="tf-punctuation">') == 4
    assert '<span class="tf-punctuation">.</span></span></span></span></span> Then' in html


@pytest.mark.slow
def test_punctuation_is_taken_from_the_text_beside_its_formula(build_page: Build) -> None:
    """One text of the paragraph says what another does: only the one that is meant may lose its comma."""
    _, _, html = build_page("# Page\n\nLet **x**; $a$; **y**; $b$.\n")
    text = re.sub(r"<[^>]*>", "", re.sub(r'<span class="katex-mathml">.*?</math></span>', "", html))
    assert "Let x; a; y; b." in text


@pytest.mark.slow
def test_a_line_does_not_break_inside_a_short_bracket(build_page: Build) -> None:
    long = "+".join("abcdefghijklmnopqrstu")
    formulas = rf"$x = \max_i(1 - h_i)$, $\|a - b\|^2 = c + d + e + f$, $T < d$, $x = ({long})$, $[0, 1$"
    _, _, html = build_page(f"# Page\n\nLet {formulas} be.\n")
    kept = html.split('<span class="tf-together">')[1:]
    text = [re.sub(r"<[^>]*>|\u200b", "", piece).split("<math")[0] for piece in kept]
    assert [len(re.findall("katex-base", piece.split("katex-mathml")[0])) for piece in kept] == [2, 6, 2]
    assert text[0].startswith("maxi(1−hi)")
    assert text[1].startswith("∥a−b∥2=")
    assert html.count("katex-base") > 25, "the long bracket has its breaks"


@pytest.mark.slow
def test_a_percent_sign_and_a_noun_stay_with_their_number(build_page: Build) -> None:
    page = "# Page\n\nIn 5 % and **6** % of cases, in chapter 7, `7 %` or\n\n```python\n8 % 3\n```\n"
    _, _, html = build_page(f"{page}\n```{{eval-rst}}\n>>> 9 % 4\n1\n```\n")
    assert "In 5\N{NO-BREAK SPACE}% and" in html
    assert "in chapter\N{NO-BREAK SPACE}7," in html
    assert "</strong>\N{NO-BREAK SPACE}% of" in html
    assert "8 % 3" in re.sub(r"<[^>]*>", "", html)
    assert "9 % 4" in re.sub(r"<[^>]*>", "", html)
    assert "literal-block" not in html, "an example without colours"
    assert html.count("\N{NO-BREAK SPACE}%") == 2


@pytest.mark.slow
def test_a_computed_number_has_a_minus_and_stays_with_its_power(build_page: Build, tmp_path: Path) -> None:
    (tmp_path / "_build").mkdir()
    (tmp_path / "_build" / "numbers.json").write_text(json.dumps({"index": {"loss": -0.5, "rate": 3.0}}))
    page = r"""# Page

It changes by {number}`index.loss:.1f`, from {number}`index.rate:.0f` $\times\,10^{-3}$ or
{number}`index.rate:.0f` ${}\times 10^{5}$ to {number}`index.rate:.0f` $x$, in GPT-2 as in `-1`,
{number}`index.rate:.0%`.
"""
    _, _, html = build_page(page)
    assert '<span class="pasted-text">\N{MINUS SIGN}0.5</span>' in html
    assert ">300\N{NO-BREAK SPACE}%<" in html
    assert "GPT-2" in html
    assert ">-1<" in html
    together = BeautifulSoup(html, "html.parser").select(".tf-together:has(.pasted-text)")
    assert [kept.select_one(".pasted-text").get_text() for kept in together] == ["3", "3"]
    assert all("10^{" in kept.select_one("annotation").get_text() for kept in together)


@pytest.mark.slow
def test_a_name_with_a_number_stays_on_one_line(build_page: Build) -> None:
    _, _, html = build_page("# Page\n\n| in RWKV-7 |\n|:--|\n| GPT-2, *SmolLM2-135M* and `GPT-3` at t-1 |\n")
    together = BeautifulSoup(html, "html.parser").select("table .tf-together")
    assert [kept.get_text() for kept in together] == ["RWKV-7", "GPT-2", "SmolLM2-135M"]


@pytest.mark.slow
def test_a_chapter_gives_its_number_to_sections_and_equations(build_page: Build) -> None:
    _, _, html = build_page(GOOD)
    text = " ".join(html.split())
    assert '<span class="section-number">7. </span>Page' in text
    assert '<span class="section-number">7.1. </span>Section' in text
    assert "(7.1)" in text


@pytest.mark.slow
def test_the_entry_of_bibtex_has_what_the_citation_file_states(build_page: Build, tmp_path: Path) -> None:
    stated = {"title": "B", "authors": [{"given-names": "Ada", "family-names": "L"}, {"name": "The C"}]}
    (tmp_path / "CITATION.cff").write_text(
        json.dumps(stated | {"version": "7.8", "date-released": "2026-01-02"})
    )
    status, warnings, html = build_page("# Page\n\n```{citation}\n```\n")
    assert (status, warnings) == (0, "")
    entry = BeautifulSoup(html, "html.parser").select_one("div.highlight-bibtex").get_text().strip()
    assert entry.splitlines() == [
        "@software{b,",
        "  title = {B},",
        "  author = {L, Ada and {The C}},",
        "  version = {7.8},",
        "  date = {2026-01-02},",
        "}",
    ]


@pytest.mark.slow
def test_what_a_cell_computed_is_a_script_beside_the_widget(
    build_page: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = {"x": 'five"] = '}
    monkeypatch.setattr(anywidget, "glued", lambda document, key: data if key == "five" else {})
    status, warnings, html = build_page("# Page\n\n```{anywidget} dial\n:alt: a dial\n:data: five\n```")
    assert (status, warnings) == (0, "")
    assert "five" not in html
    assert 'data-initial="{}"' in html
    (script,) = re.findall(r'data-data="([^"]+)"', html)
    assert widgets.read_data(tmp_path / "out" / "html" / script) == data


@pytest.mark.slow
def test_a_page_loads_no_script_that_it_does_not_use(build_page: Build) -> None:
    status, _, html = build_page("# Page\n")
    assert status == 0
    assert "widget_host" not in html
    assert "predict.js" not in html


def asking(options: str) -> str:
    """A quiz in a page."""
    return f"```{{quiz}}\nquestion: q\noptions: [{options}]\n```"


MISTAKES = {
    "bad TeX": ("$\\frac{1$", "KaTeX parse error"),
    "bad displayed TeX": ("$$\n\\nosuchcommand\n$$", "Undefined control sequence"),
    "a broken reference": ("{ref}`nowhere`", "undefined label"),
    "a broken link": ("[x](nowhere.md)", "nowhere.md"),
    "a picture without alternative text": ("![](dot.svg)", "no alternative text"),
    "a picture that is called as its file": ("![dot.svg](dot.svg)", "no alternative text"),
    "no right option": (asking("{text: a, why: b}"), "has no right option"),
    "no wrong option": (asking("{text: a, right: true, why: b}"), "no wrong option"),
    "no reason": (asking("{text: a, right: true}, {text: b, why: c}"), "has no `why`"),
    "bad TeX in a quiz": (asking("{text: a, right: true, why: $\\frac$}, {text: b, why: c}"), "KaTeX parse"),
    "no such widget": ("```{anywidget} lever\n:alt: a lever\n```", "no widget 'lever'"),
    "a widget without alternative text": ("```{anywidget} dial\n```", ":alt:"),
    "a widget's body is no JSON": ("```{anywidget} dial\n:alt: a dial\n{x: 3}\n```", "not JSON"),
    "tasks that are numbered wrong": ("```{anywidget} dial\n:alt: a dial\n:caption: (2) Turn.\n```", "not 2"),
    "no such state": ('```{anywidget} dial\n:alt: a dial\n{"y": 3}\n```', "has no state y"),
    "no such data": (
        "```{anywidget} dial\n:alt: a dial\n:data: five\n```",
        "no cell of this page glues JSON",
    ),
    "a question that has no answer": (":::{predict} Why?\n:::", "'Why?' has no answer"),
    "one choice": (":::{predict} Why?\n:choices: so\nSo.\n:::", "two choices or more"),
    "bad TeX in a choice": (":::{predict} Why?\n:choices: so | $\\frac$\nSo.\n:::", "KaTeX parse"),
    "no question": (":::{predict}\nSo.\n:::", "1 argument(s) required"),
    "no such notebook": ("```{exercises} ch99\n```", "ch99 is not released"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_the_build_and_says_where(mistake: str, build_page: Build) -> None:
    text, message = MISTAKES[mistake]
    status, warnings, _ = build_page(f"# Page\n\n{text}\n")
    assert status == 1
    assert message in warnings
    assert "index.md:" in warnings, "the warning does not say where"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "a question with options"),
        ("question: [", "not YAML"),
        ("- just words", "no `question`"),
        ("question: q\nanswer: a", "unknown keys ['answer']"),
        ("question: q\noptions: [a]", "an option is"),
        ("question: q\noptions: [{why: b}]", "no `text`"),
        ("question: q\noptions: [{text: a, why: b, right: 'yes'}]", "`right` is true or false"),
        ("question: q\noptions: [{text: a, why: b, correct: true}]", "unknown keys ['correct']"),
    ],
)
def test_a_quiz_that_cannot_be_asked_says_why(body: str, message: str) -> None:
    with pytest.raises(quiz.QuizError, match=message.replace("[", r"\[").replace("]", r"\]")):
        quiz.read_quiz(body)


def test_a_quiz_reads_one_question_or_several() -> None:
    (one,) = quiz.read_quiz(GOOD_QUIZ)
    assert [option.right for option in one.options] == [True, False]
    indented = "- " + GOOD_QUIZ.replace("\n", "\n  ")
    assert len(quiz.read_quiz(f"{indented}\n{indented}")) == 2


def test_the_rows_of_a_notebook() -> None:
    rows = exercises.read_rows(NOTEBOOK)
    assert [(row.title, row.points, row.minutes, row.difficulty) for row in rows] == [
        ("Softmax", 3.5, 15, "medium"),
        ("What do you see?", 2.0, None, ""),
    ]
    assert [row.by for row in rows] == ["autograder", "a person"]


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("import x from './y.js';\nexport default {};", "imports another file"),
        ("const x = 1;", "one export"),
        ("export const y = 1;\nexport default {};", "one export"),
    ],
)
def test_a_module_that_cannot_be_a_script_is_refused(module: str, message: str) -> None:
    with pytest.raises(widgets.WidgetError, match=message):
        widgets.classic_script("w", module)


def test_a_widget_must_define_its_three_names(tmp_path: Path) -> None:
    (tmp_path / "w.js").write_text(WIDGET_JS)
    (tmp_path / "w.py").write_text("STATE = {}\ndef compute(state): return {}\n")
    with pytest.raises(widgets.WidgetError, match=r"w\.py does not define picture"):
        widgets.load("w", tmp_path)


def test_a_picture_is_the_same_for_the_same_state(tmp_path: Path) -> None:
    (tmp_path / "w.js").write_text(WIDGET_JS)
    (tmp_path / "w.py").write_text(WIDGET_PY)
    widget = widgets.load("w", tmp_path)
    assert widget.picture({"x": 1}) == widget.picture({"x": 1})
    assert widget.picture({"x": 1}) != widget.picture({"x": 2})


@pytest.mark.parametrize("module", [*tfbook.MODULES, "widgets"])
def test_examples_in_docstrings(module: str) -> None:
    assert doctest.testmod(importlib.import_module(f"tfbook.{module}")).failed == 0
