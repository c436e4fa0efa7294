"""What the report says of exercises, of submissions and of the book."""

import re
from dataclasses import replace

import numpy as np
import pytest
from bs4 import BeautifulSoup
from docutils.nodes import make_id
from scratch import ROOT

from autograder import exercises
from autograder.course.errors import BadInputError
from autograder.course.layout import Course
from autograder.course.remark import Remark
from autograder.grading.rows import Row
from autograder.reports import class_page, item_analysis, review_queue, sections
from autograder.reports.class_report import ClassReport, Misconception
from autograder.reports.plagiarism import Pair, Shared

POINTS = {"easy": 2.0, "hard": 5.0, "odd": 3.0, "written": 4.0}
RNG = np.random.default_rng(0)


def a_class(students=20):
    """Who knows more has more, but for what is odd; nobody's written answer is graded."""
    rows = []
    for number in range(students):
        knows = number / students
        scores = {"easy": 2.0 if knows > 0.2 else 0.0, "hard": round(5 * knows * RNG.uniform(0.1, 0.5), 2)}
        scores |= {"odd": round(3 - 0.4 * knows, 2), "written": 0.0}
        rows.append(Row(f"s{number:02d}", "ch02_qkv", scores, POINTS, needs_manual_grade=("written",)))
    return rows


def by_name(rows):
    return {item.exercise: item for item in item_analysis.analyse_items(rows, list(POINTS))}


def test_difficulty_and_discrimination_as_numpy_has_them():
    rows = a_class()
    found = by_name(rows)
    names = ["easy", "hard", "odd"]
    table = np.array([[row.scores[name] for name in names] for row in rows])
    for column, name in enumerate(names):
        item = found[name]
        rest = np.delete(table, column, axis=1).sum(axis=1)
        assert item.discrimination == pytest.approx(np.corrcoef(table[:, column], rest)[0, 1])
        assert item.share == pytest.approx(table[:, column].mean() / POINTS[name])
        assert item.full_share == (table[:, column] == POINTS[name]).mean()
    assert next(iter(found)) == "hard"
    assert list(found)[-1] == "written"


def test_what_is_worth_mending_is_said_in_words():
    found = by_name(a_class())
    assert found["easy"].worth_mending == ()
    assert any("very hard" in odd for odd in found["hard"].worth_mending)
    assert "nobody has full marks" in found["hard"].worth_mending
    assert found["odd"].discrimination < -found["odd"].by_chance
    assert found["odd"].worth_mending == ("students who do well elsewhere do worse here",)
    nearly = replace(found["odd"], discrimination=-0.1)
    assert nearly.worth_mending == ("students who do well elsewhere do worse here, which may be chance",)


def test_where_there_is_no_discrimination_it_is_said_why():
    few = by_name(a_class(item_analysis.FEWEST - 1))
    assert all(item.discrimination is None and item.worth_mending == () for item in few.values())
    assert "fewer than" in few["easy"].unknown
    same = [replace(row, scores={**row.scores, "easy": 1.0}) for row in a_class()]
    assert by_name(same)["easy"].unknown == "all have the same points"
    flat = [replace(row, scores={**row.scores, "easy": 0.1, "odd": 0.2}) for row in a_class()]
    assert by_name(flat)["hard"].unknown == "all students do equally well elsewhere"
    orders = [{"a": 0.1, "b": 0.2, "c": 0.3}, {"a": 0.3, "b": 0.2, "c": 0.1}]
    names = {"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0}
    same_sum = [Row(f"s{n}", "a", {**orders[n % 2], "d": n / 20}, names) for n in range(20)]
    found = {item.exercise: item for item in item_analysis.analyse_items(same_sum, list(names))}
    assert found["d"].unknown == "all students do equally well elsewhere"
    alone = [Row(row.student, "a", {"easy": row.scores["easy"]}, {"easy": 2.0}) for row in a_class()]
    assert item_analysis.analyse_items(alone, ["easy"])[0].unknown == "nothing to compare with"


def test_what_waits_for_a_person_counts_nowhere():
    rows = a_class()
    graded = [replace(row, scores={**row.scores, "written": 4.0}) for row in rows]
    assert by_name(rows)["easy"] == by_name(graded)["easy"]
    assert (by_name(rows)["written"].mean, by_name(rows)["written"].waiting) == (None, 20)

    def overview(rows):
        return ClassReport(
            "ch02_qkv", tuple(rows), item_analysis.analyse_items(rows, list(POINTS)), (), {}, (), ()
        )

    assert overview(rows).shares == overview(graded).shares
    assert overview(rows).shares[0] == pytest.approx(sum(rows[0].scores.values()) / 10)
    assert "To be graded by hand: written of 20 students (4 points)." in overview(rows).summary()
    marked = [replace(row, needs_manual_grade=()) for row in graded]
    assert overview(marked).shares[0] == pytest.approx((sum(rows[0].scores.values()) + 4) / 14)
    assert "by hand" not in overview(marked).summary()
    late = [replace(marked[0], late_penalty=1000.0)]
    assert overview(late).shares == [0.0]


def report(status, message):
    return {"status": status, "message": message, "criteria": []}


def test_each_reason_to_look_is_told_once_by_kind():
    rows = [
        Row("ada", "a", {"f": 1.0}, {"f": 2.0}, late_seconds=90_000, late_penalty=0.5),
        Row("bob", "a", {"f": 0.0}, {"f": 2.0}),
        Row("eve", "a", {"f": 0.0}, {"f": 2.0}),
    ]
    lost = "it did not stop at the limit of 3 seconds and was ended"
    reports = {
        "ada": {"f": report("examined", "Right."), "g": report("blank", "Not written yet.")},
        "bob": {name: report("stopped", f"The process was lost: {lost}.") for name in ("f", "g")},
        "eve": {"f": report("forbidden", "`np.f` is what this asks you to write.")},
    }
    blind = Remark("`f` is the grader's", "machinery", "g", "Cell 2, line 3", "f()")
    remarks = {
        "ada": {"nb": [Remark("a cell is missing"), Remark("a cell is missing")]},
        "bob": {"nb": [Remark(f"the kernel was lost: {lost}", "stopped")]},
        "eve": {"nb": [Remark("the kernel was lost: its process ended", "stopped"), blind]},
    }
    found = review_queue.make_review_queue(
        rows, {"zoe": "no notebook", "ada": "the new one is not JSON"}, reports, remarks
    )
    assert [(look.kind, look.student) for look in found] == [
        ("not graded", "ada"),
        ("not graded", "zoe"),
        ("machinery", "eve"),
        ("forbidden call", "eve"),
        ("stopped", "bob"),
        ("stopped", "eve"),
        ("late", "ada"),
        ("remark", "ada"),
    ]
    told = {(look.kind, look.student): look.why for look in found}
    assert told["not graded", "ada"].endswith("Keeps 0.5 from the earlier version")
    assert told["stopped", "bob"].startswith("f, g: ")
    assert told["machinery", "eve"] == "g: `f` is the grader's. Cell 2, line 3: `f()`"
    (look,) = [look for look in found if look.kind == "machinery"]
    assert (look.exercise, look.place, look.line, look.notebook) == ("g", "Cell 2, line 3", "f()", "nb")
    assert told["late", "ada"] == "1 day late; 0.5 points taken off"
    assert len(set(found)) == len(found)


HOSTILE = "<script>&'\"\x1b[1A\u202e\u200b\x85"
AS_TEXT = "<script>&'\"\\x1b[1A\\u202e\\u200b\\x85"


def hostile_class(pairs=1):
    """An overview whose every text is hostile."""
    name = f"f_{HOSTILE}"
    points = {name: 3.0, "waits": 4.0, "free": 0.0}
    rows = [
        Row(f"s{n:02d} {HOSTILE}", HOSTILE, {name: n % 4, "waits": 0.0, "free": 0.0}, points, ("waits",))
        for n in range(item_analysis.FEWEST + 1)
    ]
    found = [
        review_queue.ReviewItem(HOSTILE, kind, f"in {HOSTILE}: no", "f", HOSTILE, "", "nb")
        for kind in review_queue.KINDS
    ]
    pair = Pair((HOSTILE, "bob"), (Shared(name, 31, 0.75),))
    mistake = Misconception(name, HOSTILE, 2, f"Use `{HOSTILE}`.")
    graded = item_analysis.analyse_items(rows, list(points))
    return ClassReport(HOSTILE, tuple(rows), graded, (mistake,), {name: 1}, tuple(found), (pair,) * pairs)


def texts_below(soup, head):
    """The texts of the cells below a heading, in all tables."""
    return {cell.get_text() for cell in soup.find_all("td", {"data-is": head})}


def test_every_text_on_the_page_is_escaped_and_visible():
    page = class_page.as_html(hostile_class())
    assert page.replace("\n", "").isprintable()
    soup = BeautifulSoup(page, "html.parser")
    assert not soup.find("script")
    assert soup.title.string == AS_TEXT
    assert texts_below(soup, "student") == {AS_TEXT}
    assert texts_below(soup, "why") == {f"in {AS_TEXT}: no"}
    assert texts_below(soup, "exercise") == {f"f_{AS_TEXT}", "waits", "free"}
    assert texts_below(soup, "hint") == {f"Use {AS_TEXT}.", ""}
    assert {f"s00 {AS_TEXT}", f"f_{AS_TEXT}"} <= {th.get_text() for th in soup.find_all("th")}


def test_the_page_shows_points_by_how_many_they_are():
    soup = BeautifulSoup(class_page.as_html(hostile_class()), "html.parser")
    row = soup.find(class_="scroll").find_all("tr")[3]
    cells = [(" ".join(td["class"]), td.get_text()) for td in row.find_all("td")]
    assert cells == [("n", "2"), ("n some", "2"), ("n full", "0"), ("n wait", "?")]
    bars = [(bar.b.get_text(), bar.i["style"]) for bar in soup.find(class_="bars").find_all("div")]
    assert [count for count, _ in bars] == ["3", "", "", "3", "", "", "3", "", "", "2"]
    assert {style for count, style in bars if count == "2"} == {"--part:0.67"}


def test_the_page_says_how_many_pairs_it_leaves_out():
    for extra, said in ((0, False), (2, True)):
        page = class_page.as_html(hostile_class(class_page.MOST_PAIRS + extra))
        assert page.count("(31 fragments)") == class_page.MOST_PAIRS
        assert ("<p>2 more with" in page) is said


def test_every_exercise_has_a_section():
    assert all(sections.section_of(name) for name in exercises.names())
    assert sections.section_of("ch02_qkv/another") is None


@pytest.mark.parametrize("name", exercises.names())
def test_the_section_is_in_the_book_and_its_address_is_one(name):
    section = sections.section_of(name)
    page = (ROOT / "book" / f"{section.page}.md").read_text()
    page = re.sub(r"^```.*?^```$", "", page, flags=re.M | re.S)
    headings = re.findall(r"^#{2,3} (.+)$", page, re.M)
    labels = re.findall(r"^\(([\w-]+)\)=$", page, re.M)
    assert section.heading in headings
    anchors = [*map(make_id, headings), *labels]
    assert anchors.count(make_id(section.heading)) == 1


@pytest.mark.slow
def test_where_the_book_is_published_is_one_setting(few):
    assert sections.book_url(Course.at(few)) == ""
    config = few / "nbgrader_config.py"
    text = config.read_text()
    config.write_text(f'{text}\nc.Course.book_url = "https://example.org/tf"\n')
    assert sections.book_url(Course.at(few)) == "https://example.org/tf"
    config.write_text(f'{text}\nc.Course.book_url = "javascript:alert(1)"\n')
    with pytest.raises(BadInputError, match="Expected an address"):
        sections.book_url(Course.at(few))


def test_the_guide_says_when_there_is_discrimination():
    guide = (ROOT / "book" / "instructor_guide.md").read_text()
    assert item_analysis.FEWEST == 10
    assert "with fewer than ten students the report shows none" in guide
    item = item_analysis.Item("f", 1.0, graded=25, waiting=0, mean=0.5, full_marks=1, discrimination=0.1)
    assert f"In a class of 25 a correlation of up to {item.by_chance:g} either way" in guide
