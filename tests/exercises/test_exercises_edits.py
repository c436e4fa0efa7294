"""A mistake can be declared as an accepted style with a few edits."""

import inspect

import pytest
from exercise_bank import report_on

from autograder import exercises
from autograder.checking.edits import wrong

NAME = "ch04_multi_head/split_heads"


@pytest.fixture
def exercise():
    """The exercise, with its bank put back afterwards."""
    found = exercises.find(NAME)
    kept = list(found.misconceptions)
    yield found
    found.misconceptions[:] = kept


def test_the_text_is_the_styles_with_the_edit_and_runs(exercise):
    style = exercise.styles[0]
    text = style.source("doubled")
    last = text.rstrip().splitlines()[-1].strip()
    made = wrong(
        exercise, style.function, "doubled", "Do not double.", {last: f"return 2 * ({last[7:]})"}, "slip"
    )
    answer = exercise.misconceptions[-1]
    assert answer.name == "doubled"
    assert answer.gravity == "slip"
    assert answer.source("doubled") == text.replace(last, f"return 2 * ({last[7:]})")
    assert "2 * (" in inspect.getsource(made)
    assert not report_on(NAME, made).passed


@pytest.mark.parametrize("part", ["no such text", "e"])
def test_a_part_that_stands_there_not_once_is_refused(exercise, part):
    before = len(exercise.misconceptions)
    with pytest.raises(ValueError, match="Give a part that occurs exactly once"):
        wrong(exercise, exercise.styles[0].function, "odd", "Odd.", {part: ""})
    assert len(exercise.misconceptions) == before
