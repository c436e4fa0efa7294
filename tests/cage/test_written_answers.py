"""A written answer is read wherever its author wrote it, and a profiler that was left on costs nothing."""

import pytest
from small_course import RIGHT, answer_cell, cell, released

ANSWER = "The rows sum to one, and nothing is lost, since every exponential is positive."
FORMS = {
    "a name": f'answer = """{ANSWER}"""',
    "a print": f"print('{ANSWER}')",
    "markdown": f"%%markdown\n{ANSWER}",
    "displayed": f"from IPython.display import Markdown, display\ndisplay(Markdown('{ANSWER}'))",
    "comments and code": f"# {ANSWER}\nprint(1 + 1)",
    "latex": f"%%latex\n{ANSWER}",
}


def submission():
    """A right answer, and a written one that is still as it was released."""
    notebook = released()
    notebook["cells"][2] = answer_cell(RIGHT)
    return notebook


def waiting(verdict):
    """The source of the written answer, which waits for a person."""
    assert verdict.status == "graded", verdict.note
    assert {c.grade_id: c.score for c in verdict.cells} == {"softmax": 3, "explain": None}
    (answer,) = [
        c for c in verdict.notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == "explain"
    ]
    return answer["source"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("strip", [False, True])
def test_an_answer_in_a_code_cell_below_the_empty_one_is_read(grade_notebook, form, strip):
    notebook = submission()
    notebook["cells"].append(cell("code", FORMS[form]))
    if strip:
        for one in notebook["cells"]:
            one["metadata"] = {}
    assert ANSWER in waiting(grade_notebook(notebook))


@pytest.mark.parametrize(
    "code", ["x = np.arange(6)", "def mean(x):\n    return x.mean()", "plt.plot([1, 2])"]
)
def test_code_below_the_empty_cell_is_no_answer(grade_notebook, code):
    notebook = submission()
    notebook["cells"].append(cell("code", code))
    assert code not in waiting(grade_notebook(notebook))


def test_a_profiler_that_was_left_on_costs_nothing(grade_notebook):
    notebook = submission()
    notebook["cells"].insert(
        1, cell("code", "import cProfile\nprofile = cProfile.Profile()\nprofile.enable()")
    )
    verdict = grade_notebook(notebook)
    assert {c.grade_id: c.score for c in verdict.cells} == {"softmax": 3, "explain": None}
    assert verdict.remarks == ()
