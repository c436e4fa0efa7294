"""Code that touches the grader's machinery gives the teacher a remark, however it is written."""

import json
from pathlib import Path

import pytest
from exercise_bank import NAMES, answers

from autograder import exercises
from autograder.reading import tampering
from autograder.reading.tampering import Cell

COURSE = Path(__file__).resolve().parents[2]


def remarks(*sources, functions=(), answers=""):
    return tampering.remarks([Cell(s, n, answers) for n, s in enumerate(sources, 1)], functions)


WRITTEN = {
    "cage": ["import cage", "import sys\nfor name in sys.modules:\n    print(name.startswith('cage'))"],
    "cage.profiler_guard": [
        "import cage.profiler_guard",
        "from cage import profiler_guard",
        "m['cage.profiler_guard']",
        "m['ca' + 'ge.profiler_guard']",
        "__import__('cage.profiler_guard')",
        "import importlib\nimportlib.import_module('cage.profiler_guard')",
    ],
    "sys.meta_path": ["import sys as s\ns.meta_path.clear()", "from sys import meta_path"],
    "setprofile": [
        "import sys\nsys.setprofile(None)",
        "s.setprofile(None)",
        "import sys\ngetattr(sys, 'set' + 'profile')(None)",
        "import sys\nvars(sys)['setprofile']",
        "import threading\nthreading.setprofile(f)",
    ],
    "sys.settrace": [
        "files = !ls\nimport sys\nsys.settrace(f)",
        "import sys\nx = %who_ls\nsys.settrace(f)",
        "print?\nimport sys\nsys.settrace(f)",
        "%time __import__('sys').settrace(f)",
        "%%time\nx = 1\nimport sys\nsys.settrace(f)",
    ],
    "DisableTorchFunctionSubclass": ["import torch\nwith torch._C.DisableTorchFunctionSubclass():\n    f()"],
    "_pop_mode_temporarily": ["from torch import overrides\noverrides._pop_mode_temporarily()"],
    "gc.get_objects": ["import gc\ngc.get_objects()", "from gc import get_objects as o"],
    "gc...": ["import gc\ngetattr(gc, '_'.join(['get', 'objects']))()", "import gc\nvars(gc)[name]"],
    "f_back": ["%matplotlib inline\nimport sys\nsys.exc_info()[2].tb_frame.f_back"],
    "f_globals": ["import inspect\ninspect.stack()[3].frame.f_globals['x']"],
    "object.__subclasses__": ["object.__subclasses__()"],
    "ctypes": ["import ctypes", "from ctypes import cdll", "__import__('ctypes').string_at(1)"],
    "__code__ =": ["f.__code__ = g.__code__", "setattr(f, '__code__', g.__code__)"],
    "json.dumps =": ["import json as j\nj.dumps = f", "import json\nsetattr(json, 'dumps', f)"],
    "run_cell =": ["get_ipython().run_cell = lambda *args: None"],
    "os.dup": ["import os\nos.dup(3)", "from os import dup as d"],
    "os.write": [
        "import os\nos.write(1, b'x')",
        "import os\nd = os.open('log', 1)\nos.write(d, b'x')\nos.write(1, b'x')",
        "import os\nr, w = os.pipe()\nfor d in range(3, 64):\n    os.write(d, b'x')",
        "import os\nos.pipe()\n[os.write(d, b'x') for d in (3, 4)]",
        "import os\nout = 1\nos.pipe()\nos.write(out, b'x')",
    ],
    "posix.write": ["from posix import write\nwrite(1, b'x')"],
    "os.pwritev": ["import os\nos.pwritev(1, [b'x'], 0)"],
    "os.fdopen(number)": ["import os\nos.fdopen(1, 'wb').write(b'x')"],
    "open(number)": ["open(1, 'wb').write(b'x')"],
    "redispatch": ["import torch\ntorch.ops.aten.exp.default.redispatch(keys, x)"],
    "redispatch_boxed": ["import torch\ntorch.ops.aten.exp.default._handle.redispatch_boxed(keys, x)"],
    "_ForceDispatchKeyGuard": ["import torch\nwith torch._C._ForceDispatchKeyGuard(a, b):\n    f()"],
    "socket.socket(fileno=)": ["import socket as s\ns.socket(fileno=3)"],
}


@pytest.mark.parametrize(("name", "source"), [(n, s) for n, sources in WRITTEN.items() for s in sources])
def test_it_is_seen_however_it_is_written(name, source):
    found = remarks("x = 1", source)
    assert any(one.says.startswith(f"`{name}` ") for one in found), found
    assert {one.kind for one in found} == {"machinery"}


@pytest.mark.parametrize(
    "source",
    [
        "list(globals())\nvars(model)\ndir(sys)\nhelp(f)\nlocals()\nmodel.modules()\nmodel.eval()",
        "import pickle, unittest, doctest, logging\nlogging.getLogger(__name__)\ndoctest.testmod()",
        "import os, importlib\nimportlib.reload(logging)\nos.chdir('.')\nos.environ['X'] = '1'",
        "%history -n 1\n%who_ls\n%timeit f(x)\n!ls\nget_ipython().run_line_magic('time', 'f(x)')",
        "exec('x = 1')\neval('x')\nf = compile('x', '', 'eval')",
        "import sys\nCOLAB = 'google.colab' in sys.modules\nsys.stdout = open('log', 'w')\nsys.argv = ['']",
        "import sys, importlib\nsys.modules.pop('helper', None)\nsys.path.insert(0, '.')\nimport helper",
        "import sys\nfor name in ('version', 'platform'):\n    print(getattr(sys, name))",
        "import inspect\ninspect.getsource(f)\ninspect.currentframe().f_lineno\ninspect.stack()[0].function",
        "f.__code__.co_argcount\nf.__globals__\nf.__closure__\ndir(__builtins__)\nBase.__subclasses__()",
        "import threading, socket, gc\nsocket.gethostname()\nthreading.Thread(target=f)\ngc.collect()",
        "import socket\nwith socket.socket() as free:\n    free.bind(('', 0))",
        "import os, tempfile\nd, path = tempfile.mkstemp()\nos.write(d, b'x')\nos.fstat(d).st_size",
        "import os\nsize = 64\nd = os.open('log', os.O_RDWR)\nos.read(d, size)\nos.write(d, b'x')",
        "import os\ndef save(d, text):\n    os.write(d, text)\nsave(os.open('log', os.O_RDWR), b'x')",
        "import os\nr, w = os.pipe()\nos.write(w, b'x')\nwith os.fdopen(r) as pipe:\n    pipe.read()",
        "for layer in range(3):\n    with open(f'{layer}.txt') as file:\n        file.read()",
        "class Op:\n    def call(self, x):\n        return self.redispatch(x)",
        "x = np.ones(3)\nx.ctypes.data",
        "import copy, json\ncopy = copy.deepcopy(model)\ncopy.weight = 1\njson.dumps({})",
        "import torch\nfrom torch.overrides import has_torch_function\ntorch._C._get_tracing_state()",
        "words = ['the', 'bird', 'left', 'its', 'cage']\nprint('cage' in words)",
        "'the lion left its cage. It was too old'",
        "class Store:\n    def get_objects(self):\n        return []\nStore().get_objects()",
        "# import ctypes\n\n'''sys.setprofile(f) would do the same'''",
        "import matplotlib.pyplot as plt, numpy as np, warnings\nplt.show = print\nnp.float = float",
        "import torch, torch.nn.functional as F\ntorch.Tensor.size = len\nF.gelu = F.relu",
        "try:\n    import xformers\nexcept ImportError as e:\n    print(e.__traceback__.tb_lineno)",
        "TODO ask about ctypes",
    ],
)
def test_everyday_code_gives_no_remark(source):
    assert remarks("import numpy as np, sys, os, gc, json", source) == []


HELPERS = """import sys
def quiet():
    sys.setprofile(None)
def softmax(x):
    return quiet()
def lookup(x):
    return softmax(x)
def other(x):
    return x
"""


def test_a_remark_says_which_exercise_reaches_the_code_and_where_it_is():
    (one,) = remarks("x = 1", HELPERS, functions=["softmax", "lookup", "other"])
    assert (one.exercise, one.line) == ("softmax and lookup", "sys.setprofile(None)")
    assert one.place == "Cell 2, outside the answers, line 3"
    assert "setprofile" in HELPERS.splitlines()[2]


def test_code_that_no_function_reaches_belongs_to_the_answer_around_it_or_to_no_exercise():
    source = "import sys\n\nsys.setprofile(None)  # quiet\ndef softmax(x):\n    return x"
    (one,) = remarks(source, functions=["softmax"], answers="softmax")
    assert (one.exercise, one.place) == ("softmax", "Cell 1, the answer to softmax, line 3")
    (one,) = remarks(source, functions=["softmax"])
    assert (one.exercise, one.place) == ("", "Cell 1, outside the answers, line 3")


def test_each_name_gives_one_remark_for_each_exercise():
    first, second = (f"def {name}(x):\n    s.setprofile(x)\n    s.setprofile(x)" for name in ("f", "g"))
    found = remarks(first, second, "s.setprofile(1)\ns.setprofile(2)", functions=["f", "g"])
    assert [(one.exercise, one.line) for one in found] == [
        ("f", "s.setprofile(x)"),
        ("g", "s.setprofile(x)"),
        ("", "s.setprofile(1)"),
    ]


def test_the_line_is_found_where_ipython_moves_the_code():
    (one,) = remarks("%%time\nx = 1\ny = 2\ns.setprofile(f)")
    assert (one.place, one.line) == ("Cell 1, outside the answers, line 4", "s.setprofile(f)")


def test_what_was_handed_out_gives_no_remark():
    cell = Cell("import ctypes", 1)
    assert tampering.remarks([cell], [], {"import ctypes"}) == []
    assert tampering.remarks([cell], [], {"import sys"})


def test_a_name_that_another_cell_gives_a_value_is_no_module():
    assert remarks("import copy", "copy = np.ones(4)", "copy.shape = (2, 2)") == []
    assert remarks("import json", "json.dumps = print")


@pytest.mark.parametrize(
    "source",
    [
        "counts = {'f_back': 2, 'setprofile': 3}",
        "print('sys.settrace')",
        "import sys\ncage = Cage()\nprint('google.colab' in sys.modules)",
        "import sys\nanimal = 'cage'\nprint('google.colab' in sys.modules)",
        "frame.f_back = 1",
        "self.__code__ = 1",
    ],
)
def test_words_and_own_attributes_are_not_the_machinery(source):
    assert remarks(source) == []


def test_an_object_may_have_a_method_called_like_one_of_the_shells():
    assert remarks("class A:\n    def __init__(self):\n        self.run_code = 1") == []
    assert remarks("get_ipython().run_code = 1")


def test_a_name_may_be_spelled_in_many_pieces():
    text = " + ".join(repr(letter) for letter in "setprofile")
    assert remarks(f"x = getattr(s, {text})")
    assert remarks("x = " + " + ".join(["'.'"] * 5_000)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_answer_of_the_bank_gives_a_remark(name):
    exercise = exercises.find(name)
    pasted = [exercise.given_source, *(answer.pasted(exercise.function_name) for answer in answers(exercise))]
    assert remarks(*pasted) == []


@pytest.mark.parametrize("path", sorted(COURSE.glob("solutions/*/*.ipynb")), ids=lambda path: path.stem)
def test_no_solution_gives_a_remark(path):
    cells = json.loads(path.read_text())["cells"]
    assert remarks(*("".join(c["source"]) for c in cells if c["cell_type"] == "code")) == []
