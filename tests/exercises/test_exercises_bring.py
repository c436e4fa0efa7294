"""`bring("apply_rope")`, as a student calls it beside notebooks that are solved, in part, or broken."""

import json
import shutil
from pathlib import Path

import nbformat
import pytest
import torch
from nbclient import NotebookClient

import autograder
from autograder import student
from autograder.exercises import UnknownExerciseError, find
from autograder.reading.needed_code import definitions, with_needs

ROOT = Path(__file__).parents[2]
CHAPTERS = ("ch04_multi_head", "ch05_positions", "ch06_blocks", "ch07_causal_masking", "ch08_kv_cache")

ROPE = """\
import torch


def rates(d, base):  # a helper in a cell of its own
    return base ** -(torch.arange(0, d, 2) / d)
"""
ROPE_ANSWER = '''\
def apply_rope(x, positions, base=10000.0):
    """Mine."""
    angles = positions[:, None] * rates(x.shape[-1], base).to(x.device)
    cos, sin = angles.cos(), angles.sin()  # as in the book
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).to(x.dtype)
'''
CHUNKS = "def repeat_kv(x, num_groups):\n    return x.repeat(1, num_groups, 1, 1)\n"


def notebook(folder, assignment, *cells):
    """A notebook of these code cells in a folder of its own."""
    path = folder / assignment / f"{assignment}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    made = [{"cell_type": "code", "metadata": {}, "source": cell, "outputs": []} for cell in cells]
    path.write_text(json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder of chapter 10's notebook, beside which the others are made."""
    folder = tmp_path / "ch11_capstone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def written(monkeypatch):
    """The cells that `bring` writes, as a notebook would show them."""
    cells = []

    class Shell:
        def set_next_input(self, text, replace):
            assert not replace
            cells.append(text)

    monkeypatch.setattr(student, "_shell", Shell)
    return cells


def bring(*names, space=None, **options):
    space = {} if space is None else space
    space |= {"bring": autograder.bring, "names": names, "options": options}
    exec("bring(*names, **options)", space)
    return space


def test_yours_comes_with_what_it_needs(here, tmp_path, written, capsys):
    notebook(tmp_path, "ch05_positions", "%matplotlib inline\n" + ROPE, "no python ]", ROPE_ANSWER, "1 / 0")
    space = bring("apply_rope")
    assert capsys.readouterr().out.startswith("apply_rope: yours, from ch05_positions\n")
    (cell,) = written
    assert cell.startswith(f"{student.BROUGHT}\nimport torch\n")
    assert "# yours, from ch05_positions\ndef rates" in cell
    assert "# as in the book" in cell
    assert "1 / 0" not in cell
    assert space["apply_rope"].__doc__ == "Mine."
    fresh = {}
    exec(cell, fresh)
    x, positions = torch.randn(2, 5, 4), torch.arange(5)
    assert torch.equal(fresh["apply_rope"](x, positions), space["apply_rope"](x, positions))


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ([CHUNKS], "ours, since yours has 0 of 2 points"),
        (["def repeat_kv(x, num_groups):\n    raise NotImplementedError()"], "yours is not written yet"),
        (["repeat_kv = 1 / 0"], "yours fails with a ZeroDivisionError"),
        (["def repeat_kv(x, num_groups)\n    pass"], "your cell has a SyntaxError"),
        ([], "ch04_multi_head.ipynb does not define it"),
        (None, "ch04_multi_head.ipynb is not beside this notebook"),
    ],
)
def test_ours_is_taken_where_yours_does_not_pass(cells, why, here, tmp_path, written, capsys):
    if cells is not None:
        notebook(tmp_path, "ch04_multi_head", "import torch", *cells)
    space = bring("repeat_kv")
    assert why in capsys.readouterr().out
    assert "# ours\ndef repeat_kv" in written[0]
    assert autograder.check(space["repeat_kv"]).passed


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": [{}]}', '{"cells": 3}'])
def test_a_broken_notebook_is_no_obstacle(text, here, tmp_path, written, capsys):
    notebook(tmp_path, "ch04_multi_head").write_text(text)
    bring("repeat_kv")
    assert "ours, since ch04_multi_head.ipynb cannot be read" in capsys.readouterr().out


@pytest.mark.slow
def test_one_name_for_two_helpers_is_no_accident(here, tmp_path, written, capsys):
    """The second function that needs a helper of that name is ours."""
    helped = (
        "def rates(x):\n    return x\n\n\ndef rms_norm(x, weight, eps=1e-6):\n    return rates(weight) * x "
    )
    helped += "* torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)"
    notebook(tmp_path, "ch05_positions", ROPE, ROPE_ANSWER)
    notebook(tmp_path, "ch06_blocks", "import torch", helped)
    space = bring("apply_rope", "rms_norm")
    assert "rms_norm: ours, since yours needs a `rates` of its own" in capsys.readouterr().out
    assert autograder.check(space["apply_rope"]).passed
    assert autograder.check(space["rms_norm"]).passed


def test_two_ways_to_import_a_thing_are_no_clash(here, tmp_path, written, capsys):
    notebook(
        tmp_path,
        "ch06_blocks",
        "from torch.nn import functional as F",
        "def swiglu(x, W_g, W_u, W_d):\n    return (F.silu(x @ W_g) * (x @ W_u)) @ W_d",
    )
    notebook(
        tmp_path,
        "ch07_causal_masking",
        "import torch.nn.functional as F, torch",
        "def causal_mask(q_len, k_len=None):\n    k_len = q_len if k_len is None else k_len\n"
        "    whole = F.pad(torch.ones(q_len, q_len), (k_len - q_len, 0), value=1.0)\n"
        "    return whole.tril(k_len - q_len).bool()",
    )
    bring("swiglu", "causal_mask")
    assert capsys.readouterr().out.count("yours") == 2


def test_a_second_call_says_so(here, tmp_path, written, capsys):
    space = bring("repeat_kv")
    space["repeat_kv"] = "mine"
    bring("repeat_kv", space=space)
    assert "They are here already" in capsys.readouterr().out
    assert (len(written), space["repeat_kv"]) == (1, "mine")
    bring("repeat_kv", space=space, again=True)
    assert len(written) == 2


def test_an_earlier_cell_run_again_brings_nothing_again(here, tmp_path, written):
    space = bring("repeat_kv")
    bring("causal_mask", space=space)
    space["repeat_kv"] = "mine"
    bring("repeat_kv", space=space)
    assert (len(written), space["repeat_kv"]) == (2, "mine")


def test_a_cell_has_lines_where_python_has():
    cells = ["x = 'a\x0cb\u2028c'\r\n%matplotlib inline\r\ny = 2", "%x\n" * 2000 + "z = 3"]
    assert [*definitions(cells)] == ["x", "y", "z"]


def test_a_saved_cell_is_found_by_a_new_kernel(here, tmp_path, written, capsys):
    bring("repeat_kv")
    notebook(tmp_path, "ch11_capstone", written[0]).rename(here / "mine.ipynb")
    bring("repeat_kv")
    assert "They are here already" in capsys.readouterr().out
    assert len(written) == 1


def test_another_notebook_in_the_folder_brought(here, tmp_path, written, capsys):
    bring("repeat_kv")
    mine = written[0] + "factor = 2\n1 / 0\n"
    notebook(tmp_path, "ch11_capstone", mine).rename(here / "mine.ipynb")
    assert callable(bring("repeat_kv")["repeat_kv"])
    assert (len(written), "They are here already" in capsys.readouterr().out) == (1, True)
    assert callable(bring("repeat_kv", "causal_mask")["causal_mask"])
    assert len(written) == 2


def test_an_unknown_name(here):
    with pytest.raises(UnknownExerciseError, match="apply_ropes"):
        bring("apply_ropes")


def test_definitions_of_a_notebook():
    known = definitions(
        [
            "import math, numpy as np\n!ls\nhalf = 0.5",
            "@np.vectorize\ndef f(x):\n    return half * g(x)",
            "def g(x):\n    return f(x) if x else math.pi",
            "def g(x):\n    return math.e",
        ]
    )
    needed = with_needs("f", known)
    assert list(needed)[-1] == "f"
    assert needed.keys() == {"f", "g", "half", "np", "math"}
    assert needed["f"].text.startswith("@np.vectorize\ndef f")
    assert needed["np"].text == "import numpy as np"
    assert "math.e" in needed["g"].text
    assert with_needs("h", known) == {}


def test_only_lines_that_python_cannot_read_are_left_out():
    rest = "def last_bit(x):\n    y = (x\n         % 2)\n    return y\n"
    text = 'def f():\n    """\n    !not a command\n    """\n'
    for above in ("", "%matplotlib inline\n!echo it's (\n"):
        known = definitions([above + rest, text + above])
        space = {}
        exec(known["last_bit"].text, space)
        assert space["last_bit"](7) == 1
        assert known["f"].text == text.rstrip()


def as_student(folder, solved):
    """The released notebooks, with the solutions of some exercises pasted into their answer cells."""
    for chapter in CHAPTERS:
        book = nbformat.read(ROOT / "notebooks" / chapter / f"{chapter}.ipynb", 4)
        answers = nbformat.read(ROOT / "solutions" / chapter / f"{chapter}.ipynb", 4)
        by_id = {c.metadata.get("nbgrader", {}).get("grade_id"): c.source for c in answers.cells}
        for cell in book.cells:
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
            if grade_id.removesuffix("_answer") in solved and grade_id.endswith("_answer"):
                cell.source = by_id[grade_id]
        (folder / chapter).mkdir(parents=True)
        nbformat.write(book, folder / chapter / f"{chapter}.ipynb")


@pytest.mark.slow
def test_a_student_with_half_of_the_work(tmp_path):
    """Run the cells of chapter 10 as Jupyter does, put in the cell that `bring` writes, and run it again."""
    solved = ("split_heads", "merge_heads", "apply_rope", "rms_norm", "causal_mask", "KVCache")
    as_student(tmp_path, solved)
    whole = nbformat.read(ROOT / "solutions/ch11_capstone/ch11_capstone.ipynb", 4)
    ids = ("bring", "llama-block", "TinyLlama-answer", "tinyllama-answer", "TinyLlama-check")
    cells = [c for c in whole.cells if c.id in ids or c.source.startswith("import matplotlib")]
    book = nbformat.v4.new_notebook(cells=cells, metadata=whole.metadata)
    place = next(i for i, c in enumerate(cells) if c.id == "bring")
    home = tmp_path / "ch11_capstone"
    home.mkdir()
    payloads = []
    client = NotebookClient(
        book,
        resources={"metadata": {"path": str(home)}},
        on_cell_executed=lambda execute_reply, **_: payloads.extend(execute_reply["content"]["payload"]),
    )
    client.execute()
    said = "".join(output.get("text", "") for output in cells[place].outputs)
    assert said.count("yours, from") == len(solved)
    assert said.count("ours, since yours is not written yet") == len(find("TinyLlama").brings) - len(solved)
    assert "'text/plain': '4.0'" in str(cells[-1].outputs)
    (payload,) = [p for p in payloads if p["source"] == "set_next_input"]
    book.cells.insert(place + 1, nbformat.v4.new_code_cell(payload["text"]))
    nbformat.write(book, home / "ch11_capstone.ipynb")
    payloads.clear()
    NotebookClient(book, resources={"metadata": {"path": str(home)}}).execute()
    assert "They are here already" in book.cells[place].outputs[0]["text"]
    assert "'text/plain': '4.0'" in str(book.cells[-1].outputs)
    shutil.rmtree(home)
