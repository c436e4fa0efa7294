"""What a student reads, and what a program reads."""

import json
import re
from dataclasses import replace

import pytest
from exercise_bank import examined, toy

from autograder.checking.report import WIDTH, CriterionResult, Failure, Report


def failing(**kwargs) -> Report:
    failure = Failure(**({"case": "two rows", "call": "f(x=1)", "fault": "expected 1, got 2"} | kwargs))
    core = CriterionResult("the sum", 2, 0, failure)
    return Report("toy/total", 3, (core, CriterionResult("the rest", 1, 0)))


class TestMessage:
    def test_the_hint_comes_first(self):
        report = failing(broken="rows sum to 2", misconception="mean", hint="You take the mean.")
        assert report.message == "You take the mean."

    def test_then_the_law(self):
        assert failing(broken="rows sum to 2").message == "rows sum to 2"

    def test_then_the_difference(self):
        assert failing().message == "expected 1, got 2"

    def test_a_note_stands_alone(self):
        report = Report.without_points(toy(), "blank", "Not written yet.")
        assert report.message == "Not written yet."
        assert report.max_score == 4
        assert not report.passed

    def test_a_note_does_not_replace_the_diagnosis(self):
        report = replace(failing(misconception="mean", hint="Add."), note="It uses your `mean`.")
        assert report.message == "Add. It uses your `mean`."
        assert report.as_dict()["message"] == report.message

    def test_an_explained_failure_goes_before_an_unexplained_one(self):
        plain = CriterionResult("a", 1, 0, Failure("c", "x", "expected 1, got 2"))
        known = CriterionResult("b", 1, 0, Failure("c", "x", "expected 3, got 4", None, "mean", "Add."))
        report = Report("toy/total", 2, (plain, known))
        assert report.message == "Add."
        assert report.diagnosis == "mean"


class TestText:
    def test_title_points_and_marks(self):
        text = str(failing())
        assert text.splitlines()[0] == "total: 0 of 3 points"
        assert "✗ 0/2  the sum" in text
        assert "two rows: expected 1, got 2" in text

    def test_the_call_is_shown_with_a_hint_or_without(self):
        assert "the call was f(x=1)" in str(failing())
        assert "the call was f(x=1)" in str(failing(misconception="mean", hint="Add."))
        assert "the call was" not in str(failing(call=""))

    def test_a_hint_is_given_once(self):
        report = examined(lambda x, axis=None: x.mean(axis=axis))
        assert str(report).count("You take the mean") == 1

    def test_the_hint_stands_first(self):
        lines = [line.strip() for line in str(failing(misconception="mean", hint="Add.")).splitlines()]
        assert lines[2:5] == ["→ Add.", "two rows: expected 1, got 2", "the call was f(x=1)"]

    def test_a_wrong_shape_stands_before_the_hint(self):
        report = failing(fault="expected shape (2, 3), got shape (2, 1)", misconception="mean", hint="Add.")
        lines = [line.strip() for line in str(report).splitlines()]
        assert lines[2:4] == ["two rows: expected shape (2, 3), got shape (2, 1)", "→ Add."]

    @pytest.mark.parametrize(
        ("first", "second", "shown"),
        [
            (
                Failure("a", "f(1)", "your code raised ValueError: (line 3: x / s)"),
                Failure("b", "f(2)", "your code raised ValueError: (line 4: x * s)"),
                ["b: your code raised ValueError: (line 4: x * s)", "the call was f(2)"],
            ),
            (
                Failure("a", "f(1)", "expected 1, got 2"),
                Failure("b", "f(2)", "expected 1, got 2", None, "mean", "Add."),
                ["→ Add.", "the same as above"],
            ),
            (
                Failure("a", "f(1)", "expected 1, got 2", "row 1 sums to 2"),
                Failure("b", "f(2)", "expected 3, got 4", "row 1 sums to 2"),
                ["b: expected 3, got 4", "the call was f(2)", "it breaks the same rule as above"],
            ),
            (  # other numbers may be of another rule
                Failure("a", "f(1)", "expected 1, got 2", "pair 3 turns by 2"),
                Failure("b", "f(2)", "expected 3, got 4", "pair 1 turns by 4.5"),
                ["b: expected 3, got 4", "the call was f(2)", "pair 1 turns by 4.5"],
            ),
            (
                Failure("a", "f(1)", "expected 1, got 2"),
                Failure("b", "f(2)", "expected 3, got 4"),
                ["b: expected 3, got 4", "the call was f(2)"],
            ),
        ],
    )
    def test_what_was_told_is_not_told_again(self, first, second, shown):
        report = Report(
            "toy/total", 2, (CriterionResult("a", 1, 0, first), CriterionResult("b", 1, 0, second))
        )
        lines = [line.strip() for line in str(report).splitlines()]
        assert lines[lines.index("✗ 0/1  b") + 1 :] == shown
        html = re.sub("</?code>", "", report._repr_html_())
        assert all(f">{line}</p>" in html for line in shown)

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (
                Failure("a", "f(1)", "your code raised ValueError: sizes (2, 3) (2,) (line 3: x / s)"),
                Failure("b", "f(2)", "your code raised ValueError: sizes (4, 3, 1) (5, 1) (line 3: x / s)"),
            ),
            (
                Failure("a", "f(1)", "expected 1, got 2", None, "mean", "Add."),
                Failure("b", "f(2)", "expected 3, got 4", "rows", "mean", "Add."),
            ),
        ],
    )
    def test_what_failed_for_the_same_reason_stands_in_one_line(self, first, second):
        whys = {"a": first, "b": second, "c": None, "d": second}
        report = Report("toy/total", 4, tuple(CriterionResult(n, 0.5, 0, why) for n, why in whys.items()))
        assert [line.strip() for line in str(report).splitlines()][-4:] == [
            "✓ 0/0.5  c",
            "counts once the first criterion above is met",
            "✗ 0/1  b; d",
            "the same as above",
        ]
        assert "<b>0/1</b> b; d" in report._repr_html_()

    def test_long_lines_go_on_below_their_beginning(self):
        report = failing(hint="Add the numbers. " * 20, call=f"f(x={'9' * 120})")
        text = report.wrapped()
        assert text.split() == str(report).split()
        assert max(len(line) for line in text.splitlines() if "999" not in line) <= WIDTH
        first, second = [line for line in text.splitlines() if "numbers" in line][:2]
        assert first.startswith(" " * 9 + "→ Add")
        assert len(second) - len(second.lstrip()) == 11
        assert f"f(x={'9' * 120})" in text


class TestHtml:
    def test_what_a_student_wrote_is_escaped(self):
        nasty = "<script>alert('x')</script>"
        html = failing(fault=nasty, broken=nasty, call=nasty)._repr_html_()
        assert "<script" not in html
        assert "&lt;script&gt;" in html

    def test_a_note_and_an_error_are_escaped(self):
        def nasty(x, axis=None):
            raise RuntimeError("<img src=x onerror=alert(1)>")

        assert "<img" not in examined(nasty)._repr_html_()
        note = Report.without_points(toy(), "missing", "<b>nothing</b>")._repr_html_()
        assert "<b>nothing" not in note

    def test_it_says_what_the_text_says(self):
        html = failing(hint="Add.", misconception="mean")._repr_html_()
        for words in ("total: 0 of 3 points", "the sum", "two rows: expected 1, got 2", "→ Add."):
            assert words in html

    def test_emphasis_and_code_are_marked_and_a_product_is_not(self):
        html = failing(hint="Sum *all* of `a * b * c`, as in h*T.", misconception="mean")._repr_html_()
        assert "→ Sum <em>all</em> of <code>a * b * c</code>, as in h*T." in html


class TestData:
    @pytest.mark.parametrize(
        "report",
        [
            failing(),
            failing(misconception="mean", hint="Add.", broken="rows"),
            Report.without_points(toy(), "forbidden", "Write it yourself.", forbidden="math.fsum"),
        ],
        ids=["plain", "explained", "forbidden"],
    )
    def test_there_and_back_through_json(self, report):
        data = json.loads(json.dumps(report.as_dict()))
        assert Report.from_dict(data) == report
        assert data["passed"] is False
        assert data["message"] == report.message
        assert data["diagnosis"] == report.diagnosis
        assert data["score"] == report.score
