"""What can be followed in the text of a submission is plain; all else is told, and honest code is plain."""

import json
from pathlib import Path

import pytest
from exercise_bank import NAMES, answers

import tfcore.data
from autograder import exercises, open_modules, plain, plain_names

COURSE = Path(__file__).resolve().parents[2]

TOLD = {
    "getattr": ["getattr(m, name)", "map(getattr, a, b)", "getattr(m, f'{name}')", "getattr(*pair)"],
    "setattr": ["setattr(m, name, 1)", "import re\nsetattr(re, f's{u}', f)"],
    "vars": ["vars(m)", "take = vars", "def f():\n    return [vars for vars in ()], vars(m)"],
    "exec": [
        *("exec(text)", "%timeit -n1 exec(text)", "%%time\nexec(text)", "def f(x: exec(text)): pass"),
        *("@exec\ndef f(): pass", "x = lambda: exec(text)", "class A(exec(text)): pass", "f'{exec(text)}'"),
        "files = !ls\nexec(text)",
    ],
    "open": ["open(7, 'wb')", "open(name)", "with open(x) as f: pass"],
    "__globals__": [
        "f.__globals__",
        "getattr(f, '__glo' + 'bals__')",
        "match f:\n    case A(__globals__=g): pass",
    ],
    "__getattribute__": ["object.__getattribute__(m, name)"],
    "gi_frame": ["g().gi_frame"],
    "mro": ["type(x).mro()"],
    "__enter__": ["def f(kind):\n    kind.__enter__ = g", "setattr(kind, '__enter__', g)", "del x.__enter__"],
    "torch.utils._python_dispatch": ["from torch.utils._python_dispatch import TorchDispatchMode"],
    "argparse": ["import argparse"],
    "_ask": ["model._ask(1)"],
    "__builtins__": ["__builtins__['x']"],
    "get_ipython": ["get_ipython().user_ns", "get_ipython().run_line_magic(a, b)", "g = get_ipython"],
    "exit": ["exit._ip"],
    "re.sub": [
        *(
            "import re\nre.sub = f",
            "import re as r\nr.sub = f",
            "import re\ndel re.sub",
            "import re\nre.sub += 1",
        ),
        *(
            "import re\nsetattr(re, 'sub', f)",
            "import re\nfor re.sub in [f]: pass",
            "import re\nx, re.sub = 1, f",
        ),
        "for i in (1, 2):\n    if i > 1: b = a\n    import re\n    a = re\nb.sub = f",
    ],
    "torch.Tensor.numpy": [
        "import torch\nT = torch.Tensor\nT.numpy = f",
        "from torch import Tensor\nTensor.numpy = f",
    ],
    "re": [
        "import re\nf(re)",
        "import re\n[re][0].sub = f",
        "import re\n(m := re)",
        "import re\nx = y = re",
        "class A:\n    import re",
        "import re\nclass A:\n    m = re",
        "class A:\n    from torch import nn as re; import re",
    ],
    "torch.nn": ["import torch\nf(torch.nn)", "from torch import nn\nprint(nn)"],
    "torch.*": ["from torch import *"],
    "torch.overrides": [
        "import torch\ntorch.overrides",
        "from torch import overrides",
        "import torch.overrides",
    ],
    "torch.sys": ["import torch\ntorch.sys.modules", "import torch as t\nt.sys"],
    "sys": ["m().sys", "x.y.sys"],
    "sys.modules": [
        "import sys\nsys.modules",
        "from sys import modules",
        "import sys\ngetattr(sys, 'modules')",
    ],
    "builtins": ["import builtins"],
    "importlib": ["import importlib"],
    "None.x": ["from . import x"],
    "numpy.load": ["import numpy as np\nnp.load(f, allow_pickle=True)", "import numpy as np\nf = np.load"],
    "torch.load": ["import torch\ntorch.load(f, **how)", "from torch import load"],
    "functools.singledispatch": ["from functools import singledispatch"],
    "numpy.testing.runstring": ["import numpy as np\nnp.testing.runstring(text, {})"],
    "functools.wraps": [
        "from functools import wraps\n@wraps(f, assigned=names)\ndef g(): pass",
        "import functools\nx = functools.wraps",
        "import functools as ft\nft.wraps(f)(g)",
        "from functools import wraps\nwraps(A)([].append)",
    ],
    "frombuffer": [
        "import numpy as np\nnp.frombuffer(np.empty(1, object), np.uint64)",
        "from torch import frombuffer",
    ],
    "grad_fn": ["y.grad_fn(torch.ones(3))", "nodes = [y.grad_fn]"],
    "readinto": ["import io\nio.BytesIO(place).readinto(objects)"],
    "memoryview": ["memoryview(objects)"],
    "cast": ["objects.data.cast('B')"],
    "register": ["N.register(Hashable)", "getattr(N, 'register')(Hashable)"],
    "contextlib.redirect_stdout": [
        "import contextlib\nclass A(contextlib.redirect_stdout):\n    _stream = 'modules'",
        "from contextlib import redirect_stdout\nr = redirect_stdout({})\nr._stream = 'modules'",
    ],
    "os.environ": [
        "import os\nos.environ['TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD'] = '1'",
        *("from os import environ", "import os\ne = os.environ", "import os\nos.environ.update(x=1)"),
        "import os\nos.environ[name] = '1'",
    ],
    "%env": ["%env TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1", "%env MPLBACKEND x"],
    "numpy.test": ["import numpy as np\nnp.test(extra_argv=['a.py'])"],
    "scipy.special.test": ["from scipy import special\nspecial.test()"],
    "__del__": ["class A:\n    def __del__(self): pass"],
    "B": ["import numpy as np\nclass B(np.vectorize): pass", "import re\nclass B(re.Scanner): pass"],
    "numpy.ma.MaskedArray": ["import numpy as np\nclass A(np.ma.MaskedArray): pass"],
    "numpy.matrix": ["import numpy as np\nM = np.matrix\nclass A(M): pass"],
    "m": ["import " + "; import ".join(f"torch.a{n} as m" for n in range(30))],
    "functools.update_wrapper": ["import functools\nfunctools.update_wrapper(a, b, names)"],
    "inspect.signature": ["import inspect\ninspect.signature(f, eval_str=True)"],
    "obj": ["try:\n    torch.x\nexcept AttributeError as e:\n    m = e.obj"],
    "__builtin__": ["__builtin__.sub"],
    "_sh": ["_sh.x"],
    "pylab": ["pylab"],
    "%pylab": ["%pylab"],
    "__array_interface__": [
        "class A: __array_interface__ = {'data': (id(x), False)}",
        "class A:\n    def __array_interface__(self): pass",
        "class A: __array_interface__: dict = x",
    ],
    "__getattr__": ["class A:\n    def __getattr__(self, name): return {'data': (id(x), False)}"],
    "__annotations__": ["class A: __annotations__ = {text: int}", "class A: __annotations__[text] = int"],
    "__dataclass_fields__": ["class A: __dataclass_fields__ = {}"],
    "__reduce__": ["class A:\n    def __reduce__(self): return B, (), {name: {}}"],
    "A": ["class A(nn.Module, dict): pass", "class A(metaclass=f): pass"],
    "type": [
        "raise TypeError('not', type(x))",
        *("type('A', (), {name: {}})", "type(*how)", "map(type, names, bases, dicts)", "T = type"),
        *("kind = type(x)", "f(type(x))", "type(x)((1,), object, text)", "x.__class__(*how)"),
        *("class M(type): pass", "type(A)('A', (), {name: {}})", "A.__class__('A', (), {name: {}})"),
    ],
    "numpy.ndarray": [
        "import numpy as np\nnp.ndarray((1,), object, text)",
        "import numpy as np\nkind = np.ndarray\nkind((1,), object, text)",
        "import numpy as np\nkinds = [np.ndarray]",
        "import numpy as np\nlist[np.ndarray]",
        "from numpy import ndarray\nclass A(ndarray): pass",
    ],
    "numpy.memmap": ["import numpy as np\nnp.memmap(f, object)"],
    "buffer": ["kind((1,), object, buffer=text)", "type(x)((1,), object, buffer=text)"],
    "__class__": ["kind = x.__class__", "f(x.__class__)"],
    "annotation": ["inspect.signature(f).parameters['x'].annotation"],
    "dataclasses.field": ["from dataclasses import field\nf = field(); f.name = text"],
    "dataclasses.fields": ["import dataclasses\ndataclasses.fields(A)[0].name = text"],
    "types.SimpleNamespace": ["from types import SimpleNamespace as N\nN(**{name: {}})"],
    "enum": ["import enum\nenum.Enum('A', {name: {}})"],
    "torch.fx": ["import torch\ntorch.fx.symbolic_trace(f)"],
    "torch.compile": ["import torch\ntorch.compile(f, backend=g)"],
    "%cd": ["%cd {take(x)}", "%cd $x"],
    "%config": ["%config Shell.x = 1"],
    "module://": ["import matplotlib.pyplot as plt\nplt.x('module://mine')"],
    "%run": ["%run mine.py"],
    "%load_ext": ["%load_ext mine"],
    "%writefile": ["%%writefile mine.py\nx = 1"],
    "run": ["run mine.py"],
    "a nest of brackets or branches": ["x = " + "-" * 900 + "1"],
}


@pytest.mark.parametrize(("name", "source"), [(n, s) for n, sources in TOLD.items() for s in sources])
def test_what_is_not_plain_is_told(name, source):
    assert name in plain.obscure(["a = 1", source])


PLAIN = """
import numpy as np, torch, torch.nn.functional as F; np.linalg.norm(x); F.softmax(x, -1); torch.Tensor
import torch; F = torch.nn.functional; F.relu(torch.backends.mps.is_available())
import torch; torch.backends.cudnn.deterministic = True; x.grad = None; x.data[0] = 1
import sys; IN_COLAB = "google.colab" in sys.modules
from math import *
from __future__ import annotations
import sys; sys.path.append(".."); sys.setrecursionlimit(9); print(sys.version)
import os; os.makedirs("a", exist_ok=True); os.path.join("a", "b")
import inspect; inspect.signature(f); _ = 3; _, __, _i
import time; start = time.time()
import random; f = lambda random: random
import copy; g = lambda x: [copy for copy in x]
import os; os.environ["OMP_NUM_THREADS"] = "1"; os.environ.get(x); os.environ["HOME"]; "A" in os.environ
import torch; print(y.grad_fn); y.grad_fn is None; torch.func.jvp(f, x, y)
import torch; torch.func.functional_call(m, p, x)
import torch; A = torch.Tensor; A = A.T
getattr(self, "weight"); setattr(self, f"head_{i}", 1); getattr(x, "shape", None); hasattr(x, name)
open("notes.txt").read()
self._cache = {}; self._cache[1]
point._replace(x=1); type(x).__name__; x.__class__.__name__; super().__init__()
def f(vars, compile): return vars, compile
import numpy as np; np.save("x.npy", x); np.load("x.npy", mmap_mode="r")
import tfcore.attention; from tfcore.data import VOCABULARY
%matplotlib inline
%timeit -n 10 f(x)
!pip install -q x
exit()
import matplotlib.pyplot as plt; plt.rcParams["font.size"] = 3; plt.style.use("ggplot"); plt.cm.viridis(3)
class A: __slots__ = ("a",)
import numpy as np; isinstance(x, (np.ndarray, float)); f"{type(x)}"; type(x).__name__; print(type(x))
import numpy as np; f = lambda: type(x) in (int, np.ndarray); x: np.ndarray | None = None
class A(Generic[T]): pass; type(self)(3, eps=1e-5); type(x) is type; isinstance(x, type); x.__class__(3)
from abc import ABC; class_ = 1
import torch; torch.compile(f, mode="default")
x = = 2 +
if True
"""


PLAIN_CELLS = (
    "%%timeit -n 10\nf(x)",
    "%load_ext autoreload",
    "%env",
    "%env OMP_NUM_THREADS=1",
    "import functools\ndef g(f):\n    @functools.wraps(f)\n    def h(): pass\n    return h",
    "import torch.nn as nn, typing as t\nclass A(nn.Module): pass\nclass P(t.NamedTuple): x: int",
    "import numpy as np\nArray = np.ndarray\ndef f(x: Array, y: dict[str, list[Array]]) -> Array: return x",
)


@pytest.mark.parametrize("source", [*PLAIN.strip().splitlines(), *PLAIN_CELLS])
def test_what_honest_code_says_is_plain(source):
    found = plain.obscure([source])
    assert found == {} or source.startswith("x = =")


def test_the_line_is_told_and_a_name_from_another_cell_is_known():
    assert plain.obscure(["import re", "x = 1\n  \nre.sub = f  # quiet"]) == {
        "re.sub": "`re.sub` changes a library for all that comes after; it stands in `re.sub = f  # quiet`"
    }


def test_what_was_handed_out_is_not_read_but_known():
    assert plain.obscure(["import re\nf(re)", "x = 1"], given=["import re\nf(re)"]) == {}
    assert list(plain.obscure(["g(re)"], given=["import re"])) == ["re"]
    modes = ["from torch.utils._python_dispatch import TorchDispatchMode as Mode"]
    assert list(plain.obscure(["g(Mode)"], given=modes)) == ["torch.utils._python_dispatch"]


def test_a_chain_of_names_is_soon_read():
    chain = "\n".join(f"a{n + 1} = a{n}" for n in reversed(range(4000)))
    read = ["import torch as a0", chain, "a4000.sub = f"]
    assert list(plain.obscure(read)) == ["torch.sub"]


def test_the_options_of_a_magic_are_soon_read():
    assert plain.obscure([f"%time -{100_000 * '1'}!"])


def test_a_long_cell_with_magics_is_told():
    assert plain.obscure(["x = %who_ls\n" + 9_000 * "# long\n"])


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_of_the_bank_is_plain(name):
    exercise = exercises.find(name)
    for answer in answers(exercise):
        cells = [exercise.given_source, answer.pasted(exercise.function_name)]
        assert plain.obscure(cells, given=cells[:1]) == {}, answer.name


@pytest.mark.parametrize("path", sorted(COURSE.glob("solutions/*/*.ipynb")), ids=lambda path: path.stem)
def test_every_solution_is_plain(path):
    solved, released = (
        ["".join(c["source"]) for c in json.loads(one.read_text())["cells"] if c["cell_type"] == "code"]
        for one in (path, COURSE / "notebooks" / path.parent.name / path.name)
    )
    assert plain.obscure(solved, given=released) == {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", open_modules.OPEN)
def test_no_module_within_one_that_is_open_is_left_out(name):
    found = plain_names.inner_modules(name)
    assert found <= set(open_modules.OPEN[name].split()), "out of step: python -m autograder.plain_names"
    for one in found:
        assert plain.obscure([f"import {name} as m\nm.{one}"])


def test_the_data_of_the_course_may_be_used():
    assert plain_names.PARTS["tfcore.data"].split() == sorted(tfcore.data.__all__)
