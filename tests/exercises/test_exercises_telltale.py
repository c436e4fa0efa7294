"""Names that no honest answer needs are told to the teacher, however they are written; no honest one is."""

import json
from pathlib import Path

import pytest
from exercise_bank import NAMES, answers

from autograder import exercises, telltale

COURSE = Path(__file__).resolve().parents[2]

WRITTEN = {
    "sys.modules": [
        "import sys\nsys.modules['x']",
        "import sys as s\ns.modules",
        "from sys import modules as m",
        "import sys\ngetattr(sys, 'mod' + 'ules')",
        "vars(__import__('sys'))\ngetattr(sys, 'x')\nx = 'sys.modules'",
    ],
    "sys.*": [
        "import sys\ngetattr(sys, f'mod{x}')",
        "import sys as s\ngetattr(s, ''.join(['mod', 'ules']))",
        "import sys\nvars(sys)[name]",
    ],
    "gc.*": ["import gc\ngetattr(gc, '_'.join(['get', 'objects']))()"],
    "setprofile": [
        "sys.setprofile(None)",
        "getattr(sys, 'set' + 'profile')(None)",
        "threading.setprofile(f)",
    ],
    "cage": ["import cage", "x.startswith('cage')"],
    "cage.watch": ["import cage.watch", "from cage import watch", "m['cage.watch']", "m['ca' + 'ge.watch']"],
    "get_objects": ["import gc\ngc.get_objects()", "from gc import get_objects as o"],
    "__code__": ["f.__code__ = g.__code__", "f().__code__"],
    "builtins.exec": ["exec('x = 1')", "import builtins\nbuiltins.exec('')"],
    "settrace": [
        "files = !ls\nimport sys\nsys.settrace(f)",
        "x = %who_ls\nsys.settrace(f)",
        "print?\nsys.settrace(f)",
        "%time sys.settrace(f)",
        "%%time\nx = 1\nsys.settrace(f)",
        "x = %who_ls\nsys.settrace(f)\n" + 9_000 * "# long\n",
    ],
    "run_cell": ["get_ipython().run_cell(bytes.fromhex('00').decode())"],
    "os.dup": ["import os\nos.dup(3)", "from os import dup as d"],
    "socket.socket": ["import socket as s\ns.socket(fileno=3)"],
    "f_back": ["%matplotlib inline\nsys.exc_info()[2].tb_frame.f_back"],
}


@pytest.mark.parametrize(("name", "source"), [(n, s) for n, sources in WRITTEN.items() for s in sources])
def test_it_is_told_however_it_is_written(name, source):
    found = telltale.remarks(["x = 1", source])
    assert any(f"`{name}`" in remark for remark in found), found


def test_the_line_is_shown_and_each_name_told_once():
    (remark,) = telltale.remarks(["a = 1\nsys.setprofile(None)  # quiet", "sys.setprofile(f)"])
    assert remark.endswith("it stands in `sys.setprofile(None)  # quiet`")


@pytest.mark.parametrize(
    "source",
    [
        "list(model.modules())\nmodel.eval()\ntorch.stack([x])\nre.compile('x')",
        "import sys, torch\ngetattr(sys, 'gettrace', None)\ngetattr(torch, name)\nvars(model)",
        "'the lion left its cage. It was too old'",
        "def get_objects(a):\n    return a\nget_objects(1)",
        "redispatch = 3\nprint(redispatch)",
        "%timeit f(x)\n!ls",
        "# sys.setprofile\n\n'''exec(x) would do the same'''",
        "this is no Python sys.modules",
    ],
)
def test_what_only_looks_alike_is_not_told(source):
    assert telltale.remarks([source]) == []


def test_a_name_may_be_spelled_in_many_pieces():
    (remark,) = telltale.remarks(["x = " + " + ".join(repr(letter) for letter in "setprofile" + "." * 500)])
    assert "`setprofile`" in remark


@pytest.mark.parametrize("name", NAMES)
def test_no_answer_of_the_bank_is_told(name):
    exercise = exercises.find(name)
    pasted = [exercise.given_source, *(answer.pasted(exercise.function_name) for answer in answers(exercise))]
    assert telltale.remarks(pasted) == []


@pytest.mark.parametrize("path", sorted(COURSE.glob("solutions/*/*.ipynb")), ids=lambda path: path.stem)
def test_no_solution_is_told(path):
    cells = json.loads(path.read_text())["cells"]
    assert telltale.remarks(["".join(c["source"]) for c in cells if c["cell_type"] == "code"]) == []


def test_only_what_has_no_other_use_withholds_points():
    """Colab's own advice is to look into `sys.modules`; a cage may be a word of a sentence."""
    assert telltale.withholds(["'google.colab' in sys.modules", "words = ['bird', 'cage']"]) == []
    assert telltale.withholds(["import sys\nsys.modules['cage.calling'].x = 1"]) == ["cage.calling"]
    assert telltale.withholds(["threading.settrace(f)"]) == ["settrace"]
