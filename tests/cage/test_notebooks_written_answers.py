"""A written answer is found and read in a cell of another type, without metadata or elsewhere."""

import pytest
from small_course import RIGHT, cell
from submissions import ANSWER, scores, stripped, submission

from autograder.course.remark import Remark


def test_a_written_answer_without_metadata_is_found_by_its_place(grade_notebook):
    notebook = submission()
    notebook["cells"][-1]["source"] = "Every row of weights must add up to one."
    notebook["cells"].append(cell("markdown", "a note"))
    stripped(notebook)
    graded = grade_notebook(notebook)
    answer = next(
        c for c in graded.notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == "explain"
    )
    assert answer["source"] == "Every row of weights must add up to one."
    assert not any("missing" in remark.says for remark in graded.remarks)


ANSWER_IN_WORDS = "The rows sum to one. Nothing is lost, since e > 0."


def written(verdict):
    """The cell of the written answer; it waits for a person, and nothing is remarked."""
    assert scores(verdict) == {"softmax": 3, "explain": None}
    (answer,) = [
        c for c in verdict.notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == "explain"
    ]
    assert answer["cell_type"] == "markdown"
    return answer["source"]


@pytest.mark.parametrize("kind", ["code", "raw", "markdown", "heading"])
@pytest.mark.parametrize("strip", [False, True])
def test_a_written_answer_of_another_type_is_read(grade_notebook, kind, strip):
    notebook = submission()
    notebook["cells"][-1] |= {"cell_type": kind, "source": ANSWER_IN_WORDS}
    if strip:
        stripped(notebook)
    verdict = grade_notebook(notebook)
    assert written(verdict) == ANSWER_IN_WORDS
    assert verdict.remarks == ()


@pytest.mark.parametrize("text", ["# The rows\n# sum to one", '"""The rows\nsum to one"""'])
def test_comments_and_strings_are_a_written_answer_too(grade_notebook, text):
    notebook = submission()
    notebook["cells"][-1] |= {"cell_type": "code", "source": text}
    assert written(grade_notebook(notebook)) == f"~~~\n{text}\n~~~"
    stripped(notebook)
    assert written(grade_notebook(notebook)) == f"~~~\n{text}\n~~~"


def test_code_in_a_written_answer_is_shown_and_runs(grade_notebook):
    notebook = submission(RIGHT.replace("np.exp", "exponential"))
    code = "exponential = np.exp  # ~~~\nprint('it is positive')"
    moved = {**notebook["cells"].pop(), "cell_type": "code", "source": code}
    notebook["cells"].insert(ANSWER, moved)
    verdict = grade_notebook(notebook)
    assert written(verdict) == f"~~~~\n{code}\n~~~~"
    assert verdict.notebook["cells"][ANSWER]["outputs"][0]["text"] == "it is positive\n"


@pytest.mark.parametrize("kind", ["code", "raw", "markdown"])
def test_a_text_beside_the_empty_cell_is_the_answer(grade_notebook, kind):
    notebook = submission()
    notebook["cells"] += [cell(kind, ANSWER_IN_WORDS), cell("code", "%timeit -n1 -r1 1")]
    verdict = grade_notebook(notebook)
    assert written(verdict) == ANSWER_IN_WORDS
    assert verdict.remarks == ()


def test_a_text_elsewhere_is_looked_for(grade_notebook):
    notebook = submission()
    notebook["cells"].insert(1, cell("markdown", "The rows sum to one."))
    (remark,) = grade_notebook(notebook).remarks
    told = "the written answer 'explain' is empty, and there is text in a cell beside it: look there"
    assert remark == Remark(told)
    notebook["cells"][-1]["source"] = "Each row is a set of weights."
    assert grade_notebook(notebook).remarks == ()
