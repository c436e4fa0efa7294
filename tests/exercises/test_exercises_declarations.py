"""Every declaration keeps the contract: enough mistakes and styles, hints that help, cases that tell."""

import inspect
import json
from pathlib import Path

import numpy as np
import pytest
from exercise_bank import NAMES, alike, answers, cases

from autograder import exercises
from autograder.cage.tensors import is_array, numbers

ROOT = Path(__file__).parents[2]

BROADCAST = ("mask", "self_mask", "memory_mask")
"""Arguments whose axes of size 1 stand for other sizes."""

SQUARE = ("W_uk",)
"""Arguments that are square in some cases, so that a transposed matrix fails by its numbers alone."""


@pytest.mark.parametrize("name", NAMES)
class TestDeclaration:
    def test_enough_mistakes_and_styles(self, name):
        exercise = exercises.find(name)
        assert len(exercise.misconceptions) >= 5
        assert len(exercise.styles) >= 3

    def test_names_are_unique(self, name):
        exercise = exercises.find(name)
        named = [answer.name for answer in answers(exercise)]
        assert len(named) == len(set(named))
        assert exercise.name == name

    def test_hints_are_sentences(self, name):
        exercise = exercises.find(name)
        for mistake in exercise.misconceptions:
            assert len(mistake.says.split()) >= 6, mistake.name
            assert mistake.says.rstrip(")")[-1] in ".:", mistake.name
            assert "  " not in mistake.says, mistake.name
            assert len(mistake.says) < 260, mistake.name
        hints = [mistake.says for mistake in exercise.misconceptions]
        assert len(hints) == len(set(hints))

    def test_the_signature_is_that_of_the_reference(self, name):
        exercise = exercises.find(name)
        asked = inspect.signature(exercise.reference).parameters
        for answer in answers(exercise):
            parameters = inspect.signature(answer.function).parameters
            assert list(parameters) == list(asked), answer.name
            defaults = [p.default for p in parameters.values()] == [p.default for p in asked.values()]
            assert defaults or answer in exercise.misconceptions, answer.name  # a wrong default is a mistake
        plain = f"{exercise.function_name}({', '.join(_shown(p) for p in asked.values())})"
        assert exercise.signature == plain

    def test_it_says_where_to_read_and_how_long_it_takes(self, name):
        exercise = exercises.find(name)
        assert exercise.section
        assert 5 <= exercise.minutes <= 45
        assert exercise.difficulty in ("easy", "medium", "hard")

    def test_folded_help_stands_below_its_check(self, name):
        assignment, function = name.split("/")
        path = ROOT / "solutions" / assignment / f"{assignment}.ipynb"
        cells = json.loads(path.read_text("utf8"))["cells"]
        grade_ids = [cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in cells]
        below = "".join(cells[grade_ids.index(function) + 1]["source"])
        assert "<details>" in below, "add a Markdown cell with <details><summary>Stuck: ...</summary>"

    def test_the_core_is_worth_most(self, name):
        points = [criterion.points for criterion in exercises.find(name).criteria]
        if name != "ch11_capstone/TinyGPT":  # any model at all has logits of the right form
            assert points[0] == max(points)
        assert all(p > 0 for p in points)
        assert sum(points) == int(sum(points))

    @pytest.mark.slow
    def test_no_axis_can_be_taken_for_another(self, name):
        """The sizes of an array's axes differ, so that a wrong axis shows."""
        parameters = list(inspect.signature(exercises.find(name).reference).parameters)
        for _, case in cases(name):
            given = dict(zip(parameters, case.args, strict=False)) | case.kwargs
            for argument, value in given.items():
                if not is_array(value) or argument in (*BROADCAST, *SQUARE):
                    continue
                value = numbers(value)
                sizes = [n for n in value.shape if n > 1]
                distinct = len(sizes) == len(set(sizes)) and value.shape.count(1) <= 1
                assert distinct or _is_square_on_purpose(value), (case.says, argument, value.shape)

    @pytest.mark.slow
    def test_the_same_seed_draws_the_same_cases(self, name):
        for (_, one), (_, other) in zip(cases(name, 7), cases(name, 7), strict=True):
            assert alike((one.args, one.kwargs), (other.args, other.kwargs)), one.says

    def test_other_seeds_draw_other_numbers(self, name):
        first, second = ([(case.args, case.kwargs) for _, case in cases(name, seed)] for seed in (1, 22))
        assert not alike(first, second)

    def test_cases_are_told_apart_and_start_small(self, name):
        for criterion, drawn in exercises.find(name).draw(1):
            told = [case.says for case in drawn]
            assert len(told) == len(set(told)), criterion.says
            assert len(drawn) >= 1


def _shown(parameter):
    default = parameter.default
    return parameter.name if default is parameter.empty else f"{parameter.name}={default!r}"


def _is_square_on_purpose(value):
    """A triangle of weights or one-hot rows: what is wrong with an axis shows in the numbers."""
    return value.ndim == 2 and not np.allclose(value.sum(axis=0), value.sum(axis=1))


def test_attention_has_sizes_that_differ_from_each_other():
    """Batch, heads, T_q, T_k, d_k and d_v: no two alike, except that one of them may be 1."""
    for _, case in cases("ch02_qkv/scaled_dot_product_attention"):
        query, key, value = case.args[:3]
        sizes = [*query.shape, key.shape[-2], value.shape[-1]]
        assert len(sizes) == len(set(sizes)), case.says


def test_attention_is_unsaturated_where_the_scale_must_show():
    from tfcore import ops

    for criterion, case in cases("ch02_qkv/scaled_dot_product_attention"):
        if "without a mask" in criterion.says and case.args[1].shape[-2] > 1:
            _, weights = ops.scaled_dot_product_attention(*case.args)
            assert np.median(weights.max(axis=-1)) < 0.99, case.says


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("ch02")])
def test_both_widths_of_floats_are_tried(name, dtype):
    assert any(value.dtype == dtype for _, case in cases(name) for value in case.args if _is_array(value))


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("ch02")])
def test_arrays_that_are_not_contiguous_are_tried(name):
    assert any(not v.flags.c_contiguous for _, case in cases(name) for v in case.args if _is_array(v))


def _is_array(value):
    return isinstance(value, np.ndarray)


def cells_of(assignment):
    path = ROOT / "solutions" / assignment / f"{assignment}.ipynb"
    return json.loads(path.read_text("utf8"))["cells"]


@pytest.mark.parametrize("assignment", exercises.assignments())
class TestNotebook:
    """The solution notebook of an assignment fits its declarations."""

    def marked(self, assignment):
        return [
            (cell, cell["metadata"]["nbgrader"])
            for cell in cells_of(assignment)
            if "nbgrader" in cell["metadata"]
        ]

    def test_each_exercise_has_its_answer_and_its_test_in_order(self, assignment):
        declared = [e.function_name for e in exercises.of_assignment(assignment)]
        marks = [m for _, m in self.marked(assignment)]
        assert [m["grade_id"] for m in marks if m["grade"] and not m["solution"]] == declared
        assert [m["grade_id"] for m in marks if m["solution"] and not m["grade"]] == [
            f"{name}_answer" for name in declared
        ]

    def test_answers_hide_their_solution_and_say_the_shapes(self, assignment):
        for cell, marks in self.marked(assignment):
            source = "".join(cell["source"])
            if marks["solution"] and cell["cell_type"] == "code":
                assert source.count("### BEGIN SOLUTION") == source.count("### END SOLUTION") == 1
                before, _, _ = source.partition("### BEGIN SOLUTION")
                assert before.count('"""') == 2
                assert "Returns:" in before
            elif marks["solution"]:
                assert "=== BEGIN MARK SCHEME ===" in source
                assert "=== END MARK SCHEME ===" in source

    def test_it_takes_one_to_two_hours(self, assignment):
        graded = [cell for cell, marks in self.marked(assignment) if marks["grade"]]
        minutes = sum(cell["metadata"]["course"]["minutes"] for cell in graded)
        text = "".join(cells_of(assignment)[0]["source"])
        assert f"About {5 * round(minutes / 5)} minutes" in text
        most = 60 + 120 if "in two sittings" in text else 120
        assert 60 <= minutes <= most

    def test_the_book_has_its_chapter_and_its_page(self, assignment):
        chapter = exercises.chapter_of(assignment)
        assert chapter.split("_")[0] == assignment.removeprefix("ch").split("_")[0]
        assert (ROOT / "book" / f"{chapter}.md").is_file()
        assert (ROOT / "book" / f"notebook_{assignment.removeprefix('ch')}.md").is_file()

    def test_what_it_gives_is_what_the_bank_is_given(self, assignment):
        code = ["".join(c["source"]) for c in cells_of(assignment) if c["cell_type"] == "code"]
        for text in {e.given_source.rstrip() for e in exercises.of_assignment(assignment) if e.given}:
            given = [
                source for source in code if source.startswith(("class ", "def ")) and text.endswith(source)
            ]
            assert len(given) == 1

    def test_nothing_was_run_and_of_tfcore_only_data_is_used(self, assignment):
        cells = cells_of(assignment)
        assert len({cell["id"] for cell in cells}) == len(cells)
        for cell in cells:
            source = "".join(cell["source"]).replace("tfcore.data", "")
            if cell["id"] == "smollm2":  # a published model, in a cell that is not graded
                source = source.replace("tfcore.zoo", "")
            assert "tfcore" not in source
            if cell["cell_type"] == "code":
                assert cell["outputs"] == []
                assert cell["execution_count"] is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "assignment",
    [
        pytest.param(name, marks=pytest.mark.slow if name == "ch11_capstone" else ())
        for name in exercises.assignments()
    ],
)
@pytest.mark.parametrize("blank", [False, True], ids=["solved", "blank"])
def test_a_notebook_runs_from_top_to_bottom(assignment, blank, monkeypatch, capsys):
    """Full points when solved, none when blank, and no crash: the picture waits."""
    import matplotlib.pyplot as plt

    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.gcf()))
    namespace, scores = {}, {}
    for cell in cells_of(assignment):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            continue
        marks = cell["metadata"].get("nbgrader", {})
        if marks.get("grade"):
            scores[marks["grade_id"]] = eval(source, namespace)
            continue
        if blank and marks.get("solution"):
            head, _, _ = source.partition("### BEGIN SOLUTION")
            source = head + "raise NotImplementedError()"
        exec(compile(source, cell["id"], "exec"), namespace)
    plt.close("all")
    declared = {e.function_name: e.points for e in exercises.of_assignment(assignment)}
    assert scores == ({name: 0 for name in declared} if blank else declared)
    assert bool(shown) is not blank
    assert ("waits for" in capsys.readouterr().out) == blank
