"""A submitted notebook is understood whatever its editor, or its author, did to it."""

import base64
import copy
import json

import pytest
from small_course import RIGHT, answer_cell, cell, released
from submissions import ANSWER, TEST, scores, stripped, submission

from autograder.course.remark import Remark
from autograder.grading import matching
from autograder.grading.session import Limits


def test_right_and_blank(grade_notebook):
    assert scores(grade_notebook(submission())) == {"softmax": 3, "explain": None}
    assert scores(grade_notebook(released())) == {"softmax": 0, "explain": None}


def without_tests(nb):
    del nb["cells"][TEST]


def source_as_lines(nb):
    for c in nb["cells"]:
        c["source"] = c["source"].splitlines(keepends=True)


def warning_on_stderr(nb):
    nb["cells"].insert(
        1, cell("code", "import sys, warnings\nwarnings.warn('x')\nprint('y', file=sys.stderr)")
    )


def fifty_megabytes(nb):
    nb["cells"].insert(1, cell("code", "print('x' * 50_000_000)"))


def a_failing_cell_before(nb):
    nb["cells"].insert(1, cell("code", "1 / 0"))
    nb["cells"].insert(1, cell("code", "def broken(:"))


def redefined_later(nb):
    nb["cells"].append(cell("code", "softmax = None"))


def answer_below_its_test(nb):
    nb["cells"].append(nb["cells"].pop(ANSWER))


def a_scratch_comparison(nb):
    nb["cells"].append(cell("code", "import scipy.special\nscipy.special.softmax(np.ones(3))"))


def calls_check(nb):
    nb["cells"].insert(3, cell("code", "from autograder import check\ncheck(softmax).score"))


HONEST = [
    stripped,
    without_tests,
    source_as_lines,
    warning_on_stderr,
    fifty_megabytes,
    a_failing_cell_before,
    redefined_later,
    answer_below_its_test,
    a_scratch_comparison,
    calls_check,
]


@pytest.mark.parametrize("change", HONEST)
def test_what_costs_nothing(grade_notebook, change):
    notebook = submission()
    change(notebook)
    assert scores(grade_notebook(notebook))["softmax"] == 3


def skips_execution(nb):
    for c in nb["cells"]:
        c["metadata"]["tags"] = ["skip-execution", "raises-exception"]


def test_replaced(nb):
    nb["cells"][TEST]["source"] = "3.0"


def test_marked_as_answer(nb):
    nb["cells"][TEST]["metadata"]["nbgrader"] |= {"solution": True, "grade": False, "points": 300}


def metadata_of_wrong_types(nb):
    for c in nb["cells"]:
        c["metadata"] = {"nbgrader": {"grade_id": ["x"], "points": "many"}}


def removes_assertions(nb):
    nb["cells"].insert(
        1, cell("code", "ip = get_ipython()\nip.input_transformers_post.append(lambda lines: ['3.0\\n'])")
    )


def replaces_run_cell(nb):
    nb["cells"].insert(1, cell("code", "get_ipython().run_cell = lambda *a, **k: None"))


def forges_outputs(nb):
    data = {"text/plain": "3.0"}
    nb["cells"][TEST]["outputs"] = [
        {"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": 1}
    ]


@pytest.mark.parametrize(
    "trick",
    [
        skips_execution,
        test_replaced,
        test_marked_as_answer,
        metadata_of_wrong_types,
        removes_assertions,
        replaces_run_cell,
        forges_outputs,
        without_tests,
    ],
)
def test_what_gains_nothing(grade_notebook, trick):
    notebook = copy.deepcopy(released())
    trick(notebook)
    verdict = grade_notebook(notebook)
    assert scores(verdict)["softmax"] == 0
    assert verdict.max_score == 3


for shadow in (test_replaced, test_marked_as_answer):
    shadow.__test__ = False  # tricks on the test cell, no tests of pytest's


def test_a_release_with_sources_as_lines_is_understood(grade_notebook):
    release, notebook = released(), submission()
    for change in (source_as_lines, stripped):
        change(notebook)
    source_as_lines(release)
    assert scores(grade_notebook(notebook, release=release))["softmax"] == 3


def test_two_thousand_long_cells_are_matched_soon(grade_notebook):
    notebook = submission()
    stripped(notebook)
    notebook["cells"][1:1] = [cell("markdown", f"{i} " + "abcdefghij" * 100) for i in range(1900)]
    verdict = grade_notebook(notebook)
    assert scores(verdict)["softmax"] == 3


def test_points_before_a_lost_kernel_stand(grade_notebook):
    notebook = submission()
    notebook["cells"].append(cell("code", "import os\nos._exit(1)"))
    verdict = grade_notebook(notebook)
    assert scores(verdict)["softmax"] == 3
    assert [one.kind for one in verdict.remarks] == ["stopped"]
    assert verdict.remarks[0].says.startswith("the kernel was lost: its process ended")


def test_a_cell_that_never_ends_costs_only_its_time(grade_notebook):
    notebook = submission()
    notebook["cells"].insert(1, cell("code", "while True: pass"))
    assert scores(grade_notebook(notebook, Limits(cell_seconds=0.5)))["softmax"] == 3


def test_a_submission_has_a_limit_in_all(grade_notebook):
    notebook = submission()
    notebook["cells"][1:1] = [cell("code", "import time; time.sleep(60)")] * 20
    verdict = grade_notebook(notebook, Limits(cell_seconds=0.2, total_seconds=0.5))
    assert scores(verdict)["softmax"] == 0
    assert "used up its 0.5 seconds" in verdict.remarks[-1].says
    assert verdict.seconds < 3


FROM_A_LIBRARY = """import scipy.special
def softmax(x, axis=-1):
    return scipy.special.softmax(x, axis=axis)
"""


@pytest.mark.parametrize(
    ("softmax", "told"),
    [
        (RIGHT.replace("e / e.sum(axis=axis, keepdims=True)", "e / 7"), "which is not right yet: correct it"),
        (FROM_A_LIBRARY, "which calls `scipy.special.softmax`: write `softmax` without this call"),
    ],
    ids=["wrong", "from a library"],
)
def test_a_failure_that_comes_from_an_earlier_answer_says_so(grade_notebook, softmax, told):
    notebook = submission(softmax)
    lookup = (
        "def soft_lookup(query, keys, values, temperature):\n"
        "    if temperature <= 0:\n        raise ValueError\n"
        "    return softmax(keys @ query / temperature) @ values"
    )
    test = cell("code", "", grade_id="soft_lookup", grade=True, solution=False, locked=True, points=3)
    release = released()
    release["cells"].append(test)
    notebook["cells"] += [cell("code", lookup), test]
    report = grade_notebook(notebook, release=release).cells[1].report
    assert report.exercise == "ch02_qkv/soft_lookup"
    assert f"uses your `softmax`, {told} first." in report.message


def test_a_mistake_of_an_earlier_answer_is_not_told_as_anothers(grade_notebook):
    def tested(name, points):
        return cell("code", "", grade_id=name, grade=True, solution=False, locked=True, points=points)

    scores_of = (
        "def attention_scores(query, key):\n    return query @ np.swapaxes(key, -1, -2) / query.shape[-1]"
    )
    attention = (
        "def scaled_dot_product_attention(query, key, value, mask=None):\n"
        "    scores = attention_scores(query, key)\n"
        "    mask = True if mask is None else mask\n"
        "    weights = np.where(mask, softmax(np.where(mask, scores, -1e30)), 0.0)\n"
        "    return weights @ value, weights"
    )
    notebook, release = submission(), released()
    tests = [tested("attention_scores", 3), tested("scaled_dot_product_attention", 6)]
    release["cells"] += tests
    notebook["cells"] += [cell("code", scores_of), tests[0], cell("code", attention), tests[1]]
    reports = {c.grade_id: c.report for c in grade_notebook(notebook, release=release).cells}
    assert reports["attention_scores"].diagnosis == "d_k_not_its_root"
    assert reports["scaled_dot_product_attention"].diagnosis == "d_k_not_its_root"
    assert "uses your `attention_scores`" in reports["scaled_dot_product_attention"].message


@pytest.mark.parametrize("broken", ["", "import numpy as", "import numpy as np\nTODO tidy up"])
def test_a_broken_cell_of_imports_costs_nothing(grade_notebook, broken):
    notebook = submission(RIGHT.replace("import numpy as np\n", ""))
    notebook["cells"][1]["source"] = broken
    assert scores(grade_notebook(notebook))["softmax"] == 3
    del notebook["cells"][1]
    assert scores(grade_notebook(notebook))["softmax"] == 3


def test_a_helper_may_stand_further_down(grade_notebook):
    notebook = submission(RIGHT.replace("np.exp(", "exponential("))
    notebook["cells"].append(cell("code", "exponential = np.exp"))
    assert scores(grade_notebook(notebook))["softmax"] == 3
    notebook["cells"][-1]["source"] = "exponential = np.sin"
    report = grade_notebook(notebook).cells[0].report
    assert report.score == 0
    assert "name 'exponential' is not defined" in report.message


@pytest.mark.parametrize("source", [RIGHT, RIGHT.replace("def softmax(", "def own(") + "softmax = own"])
def test_an_answer_in_another_cell_is_no_missing_one(grade_notebook, source):
    notebook = submission()
    del notebook["cells"][ANSWER]
    notebook["cells"].insert(1, cell("code", "def helper(): ...\n" + source))
    verdict = grade_notebook(notebook)
    assert scores(verdict)["softmax"] == 3
    assert verdict.remarks == ()


def test_a_deleted_answer_that_defines_nothing_is_missing():
    marks = {"grade_id": "derivation", "grade": True, "solution": True}
    answer = cell("code", "# YOUR CODE HERE\nraise NotImplementedError()", **marks)
    assert matching.match([answer], []).notes == ["the cell 'derivation' is missing"]


MISSING = """
from no_such_library import (
    everything,
)
import no_such_library as nsl; import no_such_either; import numpy as np
%no_such_magic
%matplotlib no_such_backend
from functools import wraps

@wraps(np.exp)
def exponential(x):
    return np.exp(x)
"""


def test_what_this_machine_lacks_ends_no_cell(grade_notebook):
    notebook = submission(MISSING + RIGHT.replace("np.exp(", "exponential("))
    notebook["cells"][1]["source"] = "import pandas_or_so\nimport numpy as np"
    verdict = grade_notebook(notebook)
    assert scores(verdict)["softmax"] == 3
    assert verdict.remarks == ()
    assert verdict.notebook["cells"][ANSWER]["outputs"][-1]["ename"] == "ModuleNotFoundError"


@pytest.mark.parametrize(
    ("before", "after", "score"), [("1 / 0\n", "", 0), ("", "\n1 / 0", 3), ("", "\nno (", 0)]
)
def test_an_error_keeps_what_came_before_it(grade_notebook, before, after, score):
    assert scores(grade_notebook(submission(before + RIGHT + after)))["softmax"] == score


ENVIRONMENT = """!pip install -q nothing-of-the-kind
%pip install nothing-of-the-kind
import torch
torch.set_num_threads(4)
torch.randn(300, 300) @ torch.randn(300, 300)
found = !ls
"""


WHAT_WALLS_REFUSE = """
import subprocess, sys; subprocess.run([sys.executable, "-m", "pip", "install", "x"], check=True)
import subprocess; assert subprocess.check_output("nvidia-smi", text=True, shell=True) == ""
%conda install x
import faulthandler; faulthandler.enable()
import shutil; open("a", "w").write("a"); shutil.copy("a", "b"); shutil.copytree(".", "c")
import threading; got = []; t = threading.Thread(target=got.append, args=[1]); t.start(); t.join(); assert got
from concurrent.futures import ThreadPoolExecutor as P; assert list(P(3).map(abs, [-1, -2])) == [1, 2]
import asyncio; assert await asyncio.to_thread(abs, -3) == 3
from torch.utils.data import DataLoader; assert len(list(DataLoader(range(4), num_workers=2))) == 4
import torch; torch.rand(64).half() + torch.zeros(3, dtype=torch.bfloat16).sum()
import torch; one = torch.ones(2); assert torch.func.jvp(torch.sin, (one,), (one,))[1].shape == (2,)
import torch; assert torch.compile(torch.nn.Linear(2, 2))(torch.ones(2)).shape == (2,)
from tfcore.data import VOCABULARY; import tfcore.data.coreference
from tfwidgets import show; show("sampling")
exit()
import tqdm; [i for i in tqdm.tqdm(range(3))]
import matplotlib.pyplot as plt; plt.plot([1]); plt.savefig("a.png"); plt.style.use("ggplot")
import numpy as np; np.save("x.npy", np.ones(3)); assert np.load("x.npy").sum() == 3
import tempfile, pathlib; tempfile.NamedTemporaryFile().write(b"x"); list(pathlib.Path.home().iterdir())
"""


@pytest.mark.slow
@pytest.mark.parametrize("line", WHAT_WALLS_REFUSE.strip().splitlines())
def test_an_honest_line_does_not_end_its_cell(grade_notebook, line):
    notebook = submission()
    notebook["cells"].insert(1, cell("code", line))
    verdict = grade_notebook(notebook)
    errors = [one for one in verdict.notebook["cells"][1]["outputs"] if one["output_type"] == "error"]
    assert not errors
    assert scores(verdict)["softmax"] == 3


FILES = """%%writefile mine.py
x = 1
---
import mine, importlib
importlib.reload(mine)
importlib.import_module("mine").x
---
%run mine.py
%load_ext autoreload
"""


@pytest.mark.parametrize("sources", ["%%bash\nls", FILES])
def test_an_honest_cell_runs(grade_notebook, sources):
    notebook = submission()
    notebook["cells"][1:1] = [cell("code", source) for source in sources.split("---\n")]
    verdict = grade_notebook(notebook)
    assert not any(
        o["output_type"] == "error" for c in verdict.notebook["cells"] for o in c.get("outputs", ())
    )


@pytest.mark.slow
def test_a_cell_that_prepares_its_environment_does_no_harm(grade_notebook):
    notebook = submission()
    notebook["cells"].insert(1, cell("code", ENVIRONMENT))
    verdict = grade_notebook(notebook)
    assert scores(verdict)["softmax"] == 3
    assert not any(output["output_type"] == "error" for output in verdict.notebook["cells"][1]["outputs"])


def test_of_two_cells_with_one_id_the_changed_one_counts(grade_notebook):
    notebook = submission()
    notebook["cells"].append(answer_cell(released()["cells"][ANSWER]["source"]))
    verdict = grade_notebook(notebook)
    assert scores(verdict)["softmax"] == 3
    assert any("2 cells" in remark.says for remark in verdict.remarks)


def test_the_graded_notebook_is_what_nbgrader_needs(grade_notebook):
    notebook = submission()
    stripped(notebook)
    graded = grade_notebook(notebook).notebook
    marked = [c for c in graded["cells"] if "nbgrader" in c["metadata"]]
    assert [c["metadata"]["nbgrader"]["grade_id"] for c in marked] == ["softmax_answer", "softmax", "explain"]
    (output,) = marked[1]["outputs"]
    assert output["output_type"] == "execute_result"
    assert float(output["data"]["text/plain"]) == 3


def test_outputs_are_kept_but_cut(grade_notebook):
    notebook = submission()
    fifty_megabytes(notebook)
    notebook["cells"].append(cell("code", "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"))
    verdict = grade_notebook(notebook)
    assert len(json.dumps(verdict.as_dict())) < 400_000
    printed = next(c for c in verdict.notebook["cells"] if "50_000_000" in c["source"])["outputs"][0]["text"]
    assert "characters were cut" in printed
    shown = [o for o in verdict.notebook["cells"][-1]["outputs"] if "image/png" in o.get("data", {})]
    assert base64.b64decode(shown[0]["data"]["image/png"]).startswith(b"\x89PNG")


def test_html_and_script_of_a_student_are_left_out(grade_notebook):
    notebook = submission()
    notebook["cells"].append(
        cell("code", "from IPython.display import HTML\nHTML('<script>alert(1)</script>')")
    )
    assert "<script" not in json.dumps(grade_notebook(notebook).notebook["cells"][-1]["outputs"])


UNREADABLE = {
    "not JSON": (b"hello", "not JSON"),
    "empty": (b"", "is empty"),
    "JSON, no notebook": (b'{"a": 1}', "no list of cells"),
    "a list": (b"[]", "no list of cells"),
    "nested 100,000 deep": (b"[" * 100_000, "not JSON"),
    "binary": (bytes(range(256)), "not JSON"),
    "a million cells": (json.dumps({"cells": [{}] * 100_000}).encode(), "at most"),
}


@pytest.mark.parametrize(("data", "told"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_is_no_notebook_is_told(grade_notebook, data, told):
    verdict = grade_notebook(data)
    assert verdict.status == "unreadable"
    assert told in verdict.note
    assert verdict.cells == ()


def test_another_assignments_notebook_is_not_graded(grade_notebook):
    notebook = submission()
    for one in notebook["cells"]:
        if "nbgrader" in one["metadata"]:
            one["metadata"]["nbgrader"]["grade_id"] += "_of_another"
    verdict = grade_notebook(notebook)
    assert verdict.status == "unreadable"
    assert "the notebook of another assignment: its cells are called explain_of_another, " in verdict.note


@pytest.mark.parametrize(
    ("sources", "score"), [(("x = 1", RIGHT), 3), ((RIGHT, "def softmax(x, axis=-1):\n    return x"), 0)]
)
def test_of_two_answers_the_last_counts_and_the_teacher_is_told(grade_notebook, sources, score):
    notebook = submission()
    notebook["cells"][ANSWER : ANSWER + 1] = [answer_cell(source) for source in sources]
    verdict = grade_notebook(notebook)
    assert scores(verdict)["softmax"] == score
    told = "2 cells are called 'softmax_answer'; all of them run, so the last counts"
    assert Remark(told) in verdict.remarks


def test_what_an_earlier_release_said_is_not_the_students(grade_notebook):
    notebook = submission()
    notebook["cells"][0]["source"] = "# Softmaxx"
    assert grade_notebook(notebook).remarks == ()
