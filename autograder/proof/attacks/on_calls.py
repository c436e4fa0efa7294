"""Declare attempts to call the library's function in place of an answer, with or without the watch."""

import textwrap

from autograder.proof.attacks.attack import NONE, WORKS, Attack

CALLED = {
    "by another name": ("sm(x, axis)", "from scipy.special import softmax as sm"),
    "by getattr": ("getattr(torch, 'soft' + 'max')(torch.tensor(x), axis).numpy()", "import torch"),
    "by importlib": (
        "getattr(importlib.import_module('scipy.special'), 'soft' + 'max')(x, axis)",
        "import importlib",
    ),
    "by torch.ops": ("torch.ops.aten.softmax(torch.tensor(x), axis).numpy()", "import torch"),
    "by the operator below": (
        "torch.ops.aten._softmax(torch.tensor(x), axis, False).numpy()",
        "import torch",
    ),
    "by an overload of it": (
        "f(torch.tensor(x), axis, False).numpy()",
        "import torch\nf = getattr(torch.ops.aten, '_soft' + 'max').default",
    ),
    "by the function inside an overload": (
        "f(torch.tensor(x), axis, False).numpy()",
        "import torch\nf = getattr(torch.ops.aten, '_soft' + 'max').default._op",
    ),
    "by an overload, past the dispatcher": (
        "f.redispatch(cpu, torch.tensor(x), axis, False).numpy()",
        "import torch\nf = getattr(torch.ops.aten, '_soft' + 'max').default\n"
        "cpu = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)",
        "redispatch",
    ),
    "while torch sees no modes": (
        "run(torch.tensor(x), axis)",
        "import torch\nfrom torch import overrides\ndef run(x, axis):\n"
        "    with overrides._pop_mode_temporarily():\n"
        "        return next(map(vars(torch)['soft' + 'max'], [x], [axis])).numpy()",
        "_pop_mode_temporarily",
    ),
    "by torch.special": (
        "vars(torch.special)['soft' + 'max'](torch.tensor(x), axis).numpy()",
        "import torch",
    ),
    "with a mask": (
        "f(torch.tensor(x), torch.zeros(x.shape, dtype=torch.bool), axis).numpy()",
        "import torch\nf = getattr(torch, '_masked_soft' + 'max')",
    ),
    "as its opposite": (
        "vars(torch.nn.functional)['soft' + 'min'](-torch.tensor(x), axis).numpy()",
        "import torch",
    ),
    "as attention to the identity": (
        "np.moveaxis(weights(np.moveaxis(np.asarray(x), axis, -1)), -1, axis)",
        """import math, numpy as np, torch
def weights(x):
    q = torch.tensor(x).reshape(-1, x.shape[-1])
    one = torch.eye(x.shape[-1], dtype=q.dtype)
    attend = vars(torch.nn.functional)["scaled_dot_" + "product_attention"]
    return attend(q * math.sqrt(x.shape[-1]), one, one).reshape(x.shape).numpy()""",
    ),
    "as attention, below torch.nn": (
        "np.moveaxis(weights(np.moveaxis(np.asarray(x), axis, -1)), -1, axis)",
        """import math, numpy as np, torch
def weights(x):
    q = torch.tensor(x).reshape(-1, x.shape[-1])
    one = torch.eye(x.shape[-1], dtype=q.dtype)
    attend = getattr(torch._C._nn, "scaled_dot_" + "product_attention")
    return attend(q * math.sqrt(x.shape[-1]), one, one).reshape(x.shape).numpy()""",
    ),
    "as a method": ("getattr(torch.tensor(x), 'soft' + 'max')(axis).numpy()", "import torch"),
    "as a module": ("vars(torch.nn)['Soft' + 'max'](axis)(torch.tensor(x)).numpy()", "import torch"),
    "through map": (
        "next(map(f, [torch.tensor(x)], [axis])).numpy()",
        "import torch\nf = vars(torch)['soft' + 'max']",
    ),
    "through partial": (
        "f(torch.tensor(x)).numpy()",
        "import functools, torch\nf = functools.partial(getattr(torch, 'soft' + 'max'), dim=-1)",
    ),
    "as a program of torch's own": (
        "unit.f(torch.tensor(x).movedim(axis, -1)).movedim(-1, axis).numpy()",
        "import torch\nmake = vars(torch.jit)[''.join(['Compilation', 'Unit'])]\n"
        "unit = make('def f(x):\\n    return torch.soft' + 'max(x, -1)\\n')",
    ),
    "when its result is looked at": (
        "later(np.array(x, float), axis)",
        """import numpy as np, torch
class Lazy(np.ndarray):
    @property
    def dtype(self):
        plain = self.view(np.ndarray)
        x, axis = self.__dict__.pop("todo", (None, 0))
        if x is not None:
            plain[...] = vars(torch)["soft" + "max"](torch.tensor(x), axis).numpy()
        return plain.dtype
def later(x, axis):
    out = x.view(Lazy)
    out.todo = (x.copy(), axis)
    return out""",
    ),
    "while the watch asks a class for its module": (
        "asked(np.asarray(x), axis)",
        """import numpy as np
from scipy import special
job = {}
class Meta(type):
    @property
    def __module__(cls):
        if "x" in job:
            job["out"] = vars(special)["soft" + "max"](job.pop("x"), job.pop("axis"))
        return "student"
class Trigger(list, metaclass=Meta):
    pass
def asked(x, axis):
    job.update(x=x, axis=axis)
    Trigger().append(1)
    return job.pop("out", x)""",
    ),
    "while the watch asks a function for its module": (
        "asked(np.asarray(x), axis)",
        """import numpy as np
from scipy import special
job = {}
class Space(dict):
    def get(self, *key):
        if "x" in job:
            job["out"] = vars(special)["soft" + "max"](job.pop("x"), job.pop("axis"))
        return "student"
space = Space()
exec("def nothing(): pass", space)
def asked(x, axis):
    job.update(x=x, axis=axis)
    space["nothing"]()
    return job.pop("out", x)""",
    ),
    "while torch dispatches to no modes": (
        "run(torch.tensor(x), axis)",
        "import torch\nfrom torch.utils import _python_dispatch as below\n"
        "unit = torch.jit.script(torch.nn.Softmin(-1))\ndef run(x, axis):\n"
        "    with below._disable_current_modes():\n"
        "        return unit(-x.movedim(axis, -1)).movedim(-1, axis).numpy()",
        "_disable_current_modes",
    ),
    "with the watch switched off": (
        "run(torch.tensor(x), axis)",
        "import sys, torch\ndef run(x, axis):\n    before = sys.getprofile()\n    sys.setprofile(None)\n"
        "    try:\n        return getattr(torch, 'soft' + 'max')(x, axis).numpy()\n    finally:\n"
        "        sys.setprofile(before)",
        "setprofile",
    ),
}
"""Ways to call the library's function: an expression, the source before it, and the name in the remark."""


def calling(way: str, expression: str, before: str, remark: str = "") -> Attack:
    """Return an attack whose answer is one library call, which the watch sees."""
    answer = f"{before}\ndef softmax(x, axis=-1):\n    return {expression}"
    name = f"calls the library {way}"
    return Attack(
        name,
        "the watch sees the call, and the answer gets no points",
        answer=answer,
        points=NONE,
        remark=remark,
    )


LIBRARY = """import numpy as np, torch
def softmax(x, axis=-1):
    return getattr(torch, "soft" + "max")(torch.tensor(np.asarray(x, float)), axis).numpy()"""
"""An answer that calls the library's function without its name in the text."""


def behind(name: str, cell: str, remark: str = "") -> Attack:
    """Return an attack whose cell disables the watch and whose answer calls the library."""
    must = "the function works and gets its points; " + (
        "a remark names the place" if remark else "the call is not noticed"
    )
    return Attack(name, must, cell, LIBRARY, points=WORKS, remark=remark)


def in_vain(name: str, must: str, cell: str, remark: str = "") -> Attack:
    """Return an attack whose cell fails to disable the watch and whose answer calls the library."""
    return Attack(name, must, cell, LIBRARY, points=NONE, remark=remark)


BLINDS = """
import contextlib
@contextlib.contextmanager
def blind(names, seen):
    yield
modules["".join(["ca", "ge.calling"])]._watching = blind
"""
"""The source that disables the watch, once a cell has reached the modules of the process."""


def reaching(way: str, cell: str, remark: str = "") -> Attack:
    """Return an attack that reaches the modules of the process in this way and disables the watch."""
    name = f"puts out the watch in modules that it reaches by {way}"
    return behind(name, textwrap.dedent(cell) + BLINDS, remark)


BLIND = (
    behind(
        "puts out the watch in the grader's module",
        """
        import contextlib, sys
        @contextlib.contextmanager
        def blind(forbidden, seen):
            yield
        sys.modules["cage.calling"]._watching = blind
        """,
        "cage.calling",
    ),
    behind(
        "puts out the watch in a cell with a line of IPython's",
        """
        names = %who_ls
        import contextlib, sys
        @contextlib.contextmanager
        def blind(forbidden, seen):
            yield
        sys.modules["cage.calling"]._watching = blind
        """,
        "cage.calling",
    ),
    reaching(
        "the numbers in an array of objects",
        """
        import struct
        import numpy as np
        slot = np.empty(1, object)
        view = np.frombuffer(slot, np.uint64)
        def at(address):
            view[0] = address
            found = slot[0]
            view[0] = id(None)
            return found
        def helper(): pass
        fake = struct.pack("7Q", 99, id(bytearray), 1 << 62, 1 << 62, 0, 0, 0)
        memory = at(id(fake) + 32)
        basics = at(struct.unpack("Q", memory[id(helper) + 24 : id(helper) + 32])[0])
        modules = basics["__import__"]("s" + "ys").modules
        """,
    ),
    reaching(
        "a library's class that asks for attributes by its own",
        """
        import contextlib
        _old_targets = 0
        class Quiet(contextlib.redirect_stdout):
            _stream = "modules"
        quiet = Quiet({})
        with quiet:
            modules = quiet._old_targets[0]
        """,
    ),
    reaching(
        "a pattern that fits everything",
        """
        import abc
        from collections import namedtuple
        from collections.abc import Hashable
        def getter(name):
            class N(namedtuple("B", name), abc.ABC):
                __hash__ = None
            N.register(Hashable)
            def get(x):
                match x:
                    case N(found):
                        return found
            return get
        basics = getter("f_builtins")(getter("gi_frame")(i for i in []))
        modules = basics["__import__"]("s" + "ys").modules
        """,
        "f_builtins",
    ),
    reaching(
        "a pickle",
        """
        import pickle
        modules = pickle.loads(b"csys\\nmodules\\n.")
        """,
    ),
    behind(
        "has numpy's own tests run a file of its own",
        """
        import numpy as np
        lines = ["import contextlib, sys", "@contextlib.contextmanager", "def blind(names, seen): yield"]
        lines += ["sys.modules['ca' + 'ge.calling']._watching = blind", "def test_it(): pass"]
        with open("test_me.py", "w") as file:
            file.write(chr(10).join(lines))
        np.test(verbose=0, extra_argv=["-p", "no:cacheprovider", "test_me.py"], tests=["test_me.py"])
        """,
    ),
)
"""Attacks that win the points of a function that works, in the process of the cheat."""

SEEN = (
    in_vain(
        "looks for the watch among all objects",
        "Python refuses the search, and the call is seen",
        """
        import gc
        for thing in gc.get_objects():
            if isinstance(thing, dict) and "_watching_torch" in thing and "_watching" in thing:
                call = thing["call"]
                thing["call"] = lambda f, args, kwargs, forbidden, *rest: call(f, args, kwargs, [], *rest)
        """,
        "gc.get_objects",
    ),
    behind(
        "puts out the watch and says that it did not",
        """
        import sys
        watch = sys.modules["ca" + "ge.profiler_guard"]
        watch.switch = lambda to: None
        torch = sys.modules["torch"]
        torch.overrides.TorchFunctionMode.__enter__ = lambda self: self
        torch.overrides.TorchFunctionMode.__exit__ = lambda self, *args: None
        """,
        "cage.profiler_guard",
    ),
    in_vain(
        "changes how what was seen is written down",
        "the wire does not use the changed function",
        """
        import json
        written = json.dumps
        def dumps(value, **options):
            for part in value.get("items", []):
                if part[0] == "forbidden":
                    part[1] = None
            return written(value, **options)
        json.dumps = dumps
        """,
        "json.dumps",
    ),
    in_vain(
        "changes a module of Python through another name",
        "the watch sees the call",
        """
        import re
        def shut(module):
            module.sub = lambda *args, **kwargs: ""
        shut(re)
        """,
    ),
    Attack(
        "calls the library when its result is sent",
        "the watch continues until the result is written",
        """
        import torch
        todo = []
        def lazy(kind):
            kept = kind.contiguous
            def contiguous(x, *args, **kwargs):
                if todo and todo[-1][0].dtype == x.dtype and todo[-1][0].shape == x.shape[-1:]:
                    x = torch.nn.functional.layer_norm(x, x.shape[-1:], *todo.pop())
                return kept(x, *args, **kwargs)
            kind.contiguous = contiguous
        lazy(torch.Tensor)
        """,
        answer="""def layer_norm(x, weight, bias, eps=1e-5):
    todo[:] = [(weight.detach(), bias.detach(), eps)]
    return x * 1""",
        points=NONE,
        exercise="ch06_blocks/layer_norm",
    ),
    Attack(
        "does the forbidden while the watch looks at the name of what is called",
        "the watch does not run code of a student",
        """
        import functools
        from scipy import special
        KIT = {"f": special.softmax}
        job = {}
        class Trick:
            def __bool__(self):
                if "x" in job:
                    job["out"] = KIT["f"](job.pop("x"), job.pop("axis"))
                return False
        class Old:
            __module__ = Trick()
        note = [].append
        try:
            functools.wraps(Old)(note)
        except Exception:
            pass
        """,
        answer=(
            "import numpy as np\ndef softmax(x, axis=-1):\n    job.update(x=np.asarray(x), axis=axis)\n"
            "    note(1)\n    return job.pop('out', x)"
        ),
        points=NONE,
    ),
    Attack(
        "does the forbidden when Python collects garbage under the watch",
        "Python collects no garbage under the watch",
        """
        from scipy import special
        KIT = {"f": special.softmax}
        job = {}
        class Last:
            def __init__(self):
                self.me = self
            def __del__(self):
                if "x" in job:
                    job["out"] = KIT["f"](job.pop("x"), job.pop("axis"))
        """
        + "".join(f"def f{n}(): pass\n        " for n in range(1500))
        + f"calls = [{', '.join(f'f{n}' for n in range(1500))}]\n",
        answer=(
            "import numpy as np\ndef softmax(x, axis=-1):\n    hold = [(i, i) for i in range(4000)]\n"
            "    job.update(x=np.asarray(x), axis=axis)\n    Last()\n    for f in calls:\n        f()\n"
            "    return job.pop('out', x)"
        ),
        points=NONE,
    ),
    Attack(
        "takes it for the gradient of another function",
        "the answer is right: torch's own changes of its modes do not count as the student's",
        answer="""import torch
def softmax(x, axis=-1):
    x = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    with torch.device("cpu"):
        return torch.autograd.grad(torch.logsumexp(x, axis).sum(), x)[0].numpy()""",
    ),
)
"""Attacks that a remark exposes or that fail; one of them wins its points."""

ON_CALLS = (*(calling(way, *code) for way, code in CALLED.items()), *BLIND, *SEEN)
