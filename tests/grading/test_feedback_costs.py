"""Feedback's costs are counted and never timed: pages share one layout of each cell, and are made once."""

import functools
import json
import shutil
from collections import Counter

import pytest
from jinja2 import Environment
from nbconvert.filters.highlight import Highlight2HTML
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook
from scratch import ASSIGNMENT, FEW, in_process
from sqlalchemy import Engine, event

from autograder.course.layout import Course
from autograder.grading import gradebook, marks
from autograder.release import publish
from autograder.reports import cell_layouts, feedback, feedback_page, safe_html
from autograder.reports.cell_layouts import CellLayouts
from autograder.reports.feedback_page import Line, Summary


def counted(monkeypatch, owner, name, of):
    """How often a function is called, by what `of` makes of its arguments."""
    counts, function = Counter(), getattr(owner, name)

    @functools.wraps(function)
    def call(*args, **how):
        counts[of(*args)] += 1
        return function(*args, **how)

    monkeypatch.setattr(owner, name, call)
    return counts


def pages(course):
    return {path.parts[-3]: path.read_bytes() for path in (course / "feedback").rglob("*.html")}


@pytest.mark.slow
def test_what_pages_share_is_made_once_and_no_page_differs_for_it(few, monkeypatch):
    texts = counted(monkeypatch, safe_html, "markdown2html", lambda context, source: source)
    codes = counted(monkeypatch, Highlight2HTML, "__call__", lambda colours, source, language: source)
    safe_html._coloured.cache_clear()
    templates = counted(monkeypatch, Environment, "compile", lambda environment, source, name=None, *_: name)
    assert in_process("feedback", cwd=few).exit_code == 0
    (notebook,) = publish.notebooks(Course.at(few), ASSIGNMENT).values()
    released = json.loads(notebook)["cells"]
    shared = ["".join(cell["source"]) for cell in released if "nbgrader" not in cell["metadata"]]
    assert {source: (texts + codes)[source] for source in shared} == dict.fromkeys(shared, 1)
    assert max((texts + codes).values()) == 1
    assert set(templates.values()) == {1}
    together = pages(few)
    assert len(together) == len(FEW)
    course = Course.at(few)
    for page in feedback._pages(course, [ASSIGNMENT])[0]:
        feedback.render(feedback._exporter(course), page)
    assert pages(few) == together


def test_the_gradebook_is_read_by_as_many_statements_whatever_the_class(few):
    """One statement is sent twice: for the cells of points and for the cells of comments."""
    statements = Counter()

    def count(connection, cursor, statement, *_):
        statements[statement] += statement.startswith("SELECT")

    event.listen(Engine, "before_cursor_execute", count)
    try:
        for read in (marks.read_marks, gradebook.read):
            statements.clear()
            assert len(read(Course.at(few), ASSIGNMENT)) == len(FEW)
            assert max(statements.values()) <= 2 < len(FEW)
    finally:
        event.remove(Engine, "before_cursor_execute", count)


def summary(line=None, comment=None):
    lines, comments = {"a": line} if line else {}, {"a": comment} if comment else {}
    return Summary("nb", "one", "1", "3", "", [], lines, comments)


def test_a_cell_is_laid_out_again_if_anything_that_it_shows_differs():
    marked = {"nbgrader": {"grade_id": "a"}}
    output = {"output_type": "stream", "name": "stdout", "text": "x"}
    image = {"a.png": {"image/png": "AAAA"}}
    line = functools.partial(Line, "a", "a", score="1", points="3")
    seen = [
        (new_code_cell("x", metadata=marked, id="1"), summary(), None),
        (new_code_cell("y", metadata=marked, id="1"), summary(), None),
        (new_code_cell("x", metadata=marked, id="1", outputs=[output]), summary(), None),
        (new_code_cell("x", metadata=marked, id="1"), summary(line(verdict="part")), None),
        (new_code_cell("x", metadata=marked, id="1"), summary(line(verdict="waits")), None),
        (new_code_cell("x", metadata=marked, id="1"), summary(line(verdict="part", by_hand=True)), None),
        (new_code_cell("x", metadata=marked, id="1"), summary(comment="Say why."), None),
        (new_code_cell("x", metadata=marked, id="1"), summary(), {"state": {}}),
        (new_markdown_cell("x", metadata=marked, id="1"), summary(), None),
        (new_markdown_cell("x", metadata=marked, id="1", attachments=image), summary(), None),
    ]
    layouts = CellLayouts()
    assert len({layouts.key(*one) for one in seen}) == len(seen)
    other = new_code_cell("x", id="1")
    assert layouts.key(other, summary(), None) == layouts.key(other, summary(line(verdict="part")), None)


def test_what_is_kept_is_bounded_and_what_was_used_last_stays(monkeypatch):
    monkeypatch.setattr(cell_layouts, "MOST_CHARACTERS", 1000)
    layouts, cell = CellLayouts(), new_code_cell("often", id="1")
    often = layouts.key(cell, summary(), None)
    layouts.add(often, "often", keep=True)
    for number in range(300):
        layouts.start_page()
        assert layouts.key(cell, summary(), None) == often
        assert layouts.has(often)
        layouts.add(str(number), "x" * 10, keep=True)
        layouts.add(f"long {number}", "x" * 11, keep=True)
        layouts.add(f"once {number}", "x", keep=False)
        assert sum(map(len, layouts._kept.values())) == layouts._size <= 1000
    assert not any(key.startswith(("long", "once")) for key in layouts._kept)


@pytest.mark.slow
def test_a_page_is_made_again_for_a_mark_and_for_a_template_only(few, tmp_path, monkeypatch):
    def written():
        return json.loads(in_process("feedback", "--json", cwd=few).stdout)["written"]

    assert len(written()) == len(FEW)
    assert written() == []
    with Gradebook(f"sqlite:///{few / 'gradebook.db'}") as book:  # as many points as the grader gave
        grade = book.find_grade("softmax", ASSIGNMENT, ASSIGNMENT, "style-02")
        grade.manual_score = grade.auto_score
        book.db.commit()
    assert written() == [f"feedback/style-02/{ASSIGNMENT}/{ASSIGNMENT}.html"]
    by_hand = feedback_page.BY_HAND.encode()
    assert [student for student, page in pages(few).items() if by_hand in page] == ["style-02"]
    templates = shutil.copytree(feedback_page.TEMPLATES, tmp_path / "templates")
    (templates / "feedback" / "page.css").write_text("main { color: teal }")
    monkeypatch.setattr(feedback_page, "TEMPLATES", templates)
    assert len(written()) == len(FEW)
    assert all(b"color: teal" in page for page in pages(few).values())
    monkeypatch.setattr(feedback.versions, "_versions", lambda names: ["another version of a library"])
    assert len(written()) == len(FEW)


@pytest.mark.slow
def test_a_stopped_run_does_not_make_its_pages_again(few):
    course = Course.at(few)

    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        feedback.write_feedback(course, [ASSIGNMENT], progress=stop)
    assert len(feedback.write_feedback(course, [ASSIGNMENT]).unchanged) == 2
