"""The pictures in a submitted notebook, which the grader keeps instead of drawing them again."""

import base64

import pytest
from small_course import cell
from submissions import scores, submission

from autograder.grading.saved_pictures import NOTE

PICTURE = base64.b64encode(b"\x89PNG, as the student saw it").decode()
PLOT = "import matplotlib.pyplot as plt\nfigure, _ = plt.subplots(figsize=(3, 2))\n"
TEXT = "<Figure size 300x200 with 1 Axes>"


def plotting(source=f"{PLOT}plt.show()", text=TEXT, picture=PICTURE, **more):
    """A submission whose last cell draws, and holds a picture from before."""
    notebook = submission()
    shown = {
        "output_type": "display_data",
        "metadata": {},
        "data": {"text/plain": text, "image/png": picture},
    }
    notebook["cells"].append(cell("code", source) | {"outputs": [shown]} | more)
    return notebook


def outputs(verdict):
    assert scores(verdict)["softmax"] == 3
    return verdict.notebook["cells"][-1]["outputs"]


def pictures(verdict):
    return [o["data"]["image/png"] for o in outputs(verdict) if "image/png" in o.get("data", {})]


def test_a_saved_picture_is_kept_and_marked(grade_notebook):
    picture, note = outputs(grade_notebook(plotting()))
    assert picture["data"] == {"text/plain": TEXT, "image/png": PICTURE}
    assert note["text"] == NOTE


@pytest.mark.parametrize(
    "saved",
    [
        {"text": ["<Figure size 300x200", " with 1 Axes>"], "picture": [PICTURE[:9] + "\n", PICTURE[9:]]},
        {"source": f"{PLOT}figure"},
        {"source": f"%matplotlib inline\n{PLOT}plt.show()"},
    ],
)
def test_other_forms_of_a_saved_picture_are_kept(grade_notebook, saved):
    verdict = grade_notebook(plotting(**saved))
    assert [picture.replace("\n", "") for picture in pictures(verdict)][:1] == [PICTURE]


@pytest.mark.parametrize(
    "saved",
    [
        {"outputs": []},
        {"text": "<Figure size 900x200 with 1 Axes>"},
        {"text": "a photograph"},
        {"text": [3]},
        {"picture": 'x" onload="alert(1)'},
        {"picture": PICTURE * 60_000},
        {"outputs": [3, {"data": [TEXT]}, {"output_type": "display_data"}]},
        {"outputs": "none"},
        {"source": f"{PLOT}%config InlineBackend.figure_formats = ['retina']\nplt.show()"},
    ],
)
def test_without_a_fitting_picture_the_grader_draws(grade_notebook, saved):
    (drawn,) = pictures(grade_notebook(plotting(**saved)))
    assert base64.b64decode(drawn).startswith(b"\x89PNG\r\n")


def test_a_second_figure_is_drawn(grade_notebook):
    kept, drawn = pictures(grade_notebook(plotting(f"{PLOT}plt.show()\n{PLOT}plt.show()")))
    assert kept == PICTURE
    assert base64.b64decode(drawn).startswith(b"\x89PNG\r\n")


def test_a_figure_that_is_not_shown_any_more_has_no_picture(grade_notebook):
    assert outputs(grade_notebook(plotting(f"{PLOT}plt.close()"))) == []


def test_code_that_saves_or_reads_its_figure_works(grade_notebook):
    source = (
        f"{PLOT}plt.savefig('a.png')\nfigure.canvas.draw()\n"
        "print(open('a.png', 'rb').read(4), figure.canvas.buffer_rgba().nbytes)\nplt.show()"
    )
    verdict = grade_notebook(plotting(source))
    (printed,) = [o for o in outputs(verdict) if o.get("name") == "stdout" and o["text"] != NOTE]
    assert printed["text"] == "b'\\x89PNG' 240000\n"
    assert pictures(verdict) == [PICTURE]
