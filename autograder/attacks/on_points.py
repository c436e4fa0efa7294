"""Attempts to have points without a right answer: lies to the judge, changed libraries, fixed answers."""

import textwrap

from autograder.attacks.attack import EARNED, NONE, Attack

BLANK = "def softmax(x, axis=-1):\n    raise NotImplementedError()"
LIBRARYS = (
    "import torch\nKIT = {'f': torch.nn.functional.softmax}\n"
    "def softmax(x, axis=-1):\n    return KIT['f'](torch.tensor(x), axis).numpy()"
)
BLINDS = """
import contextlib
@contextlib.contextmanager
def blind(names, seen):
    yield
modules["".join(["ca", "ge.calling"])]._watching = blind
"""
WRONG = "import numpy as np\ndef softmax(x, axis=-1):\n    return np.zeros(np.shape(x))"


def answering(name: str, must: str, expression: str, before: str = "import numpy as np") -> Attack:
    """An answer that returns the value of an expression."""
    return Attack(
        name, must, answer=f"{before}\ndef softmax(x, axis=-1):\n    return {expression}", points=NONE
    )


EQUAL = """class Yes:
    shape, dtype, ndim = (), float, 0
    def __eq__(self, other): return True
    def __array__(self, *args, **kwargs): return self
    def __getattr__(self, name): return lambda *args, **kwargs: self"""

NESTED = """def nested():
    value = []
    for _ in range(50_000): value = [value]
    return value"""

ODD = "import numpy as np\nclass Odd(np.ndarray): pass"
ITSELF = "loop = []\nloop.append(loop)"

RETURNED = {
    "an object that equals everything": ("Yes()", EQUAL),
    "a nest of lists": ("nested()", NESTED),
    "a list that holds itself": ("loop", ITSELF),
    "a thousand million numbers": ("np.zeros(10**9, np.int8)",),
    "a number of a million digits": ("long", "long = 10 ** 1_000_000"),
    "numbers that are none": ("x * np.nan",),
    "numbers without end": ("x * np.inf",),
    "texts for numbers": ("np.full(np.shape(x), '0.5')",),
    "objects for numbers": ("np.asarray(x).astype(object)",),
    "complex numbers": ("np.asarray(x) + 0j",),
    "another dtype": ("np.asarray(x).astype(np.int8)",),
    "a class of arrays of its own": ("np.asarray(x).view(Odd)", ODD),
}
"""Odd values: an expression, and what stands before the answer."""

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
    ),
    "while torch sees no modes": (
        "run(torch.tensor(x), axis)",
        "import torch\nfrom torch import overrides\ndef run(x, axis):\n"
        "    with overrides._pop_mode_temporarily():\n"
        "        return next(map(vars(torch)['soft' + 'max'], [x], [axis])).numpy()",
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
    ),
    "with the watch switched off": (
        "run(torch.tensor(x), axis)",
        "import sys, torch\ndef run(x, axis):\n    before = sys.getprofile()\n    sys.setprofile(None)\n"
        "    try:\n        return getattr(torch, 'soft' + 'max')(x, axis).numpy()\n    finally:\n"
        "        sys.setprofile(before)",
    ),
}
"""Ways to the library function that the exercise asks for."""

LIBRARY = """import torch
def softmax(x, axis=-1):
    return getattr(torch, "soft" + "max")(torch.tensor(x), axis).numpy()"""


def blinded(name: str, cell: str, told: str) -> Attack:
    """An answer by the library, behind a watch that the notebook has put out in its own process."""
    return Attack(
        f"puts out the watch {name}",
        "nobody outside can prove it, so its points wait until the teacher has looked",
        cell,
        answer=LIBRARY,
        points=NONE,
        told=told,
    )


BLINDED = (
    blinded(
        "in the grader's module",
        """
        import contextlib, sys
        @contextlib.contextmanager
        def blind(forbidden, seen):
            yield
        sys.modules["cage.calling"]._watching = blind
        """,
        "cage.calling",
    ),
    blinded(
        "in a cell with a line of IPython's",
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
    blinded(
        "found among all objects",
        """
        import gc
        for thing in gc.get_objects():
            if isinstance(thing, dict) and "_seeing_torch" in thing and "_watching" in thing:
                call = thing["call"]
                thing["call"] = lambda f, args, kwargs, forbidden, *rest: call(f, args, kwargs, [], *rest)
        """,
        "get_objects",
    ),
    blinded(
        "and says that it did not",
        """
        import sys
        watch = sys.modules["ca" + "ge.watch"]
        watch.switch = lambda to: None
        torch = sys.modules["torch"]
        torch.overrides.TorchFunctionMode.__enter__ = lambda self: self
        torch.overrides.TorchFunctionMode.__exit__ = lambda self, *args: None
        """,
        "cage.watch",
    ),
    blinded(
        "where what it has seen is written down",
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
    blinded(
        "through a module that has no name",
        """
        import re
        def shut(module):
            module.sub = lambda *args, **kwargs: ""
        shut(re)
        """,
        "re",
    ),
    blinded(
        "with a text that is put together",
        """
        from torch import nn
        shell = getattr(nn, "".join(["func", "tional"]))
        """,
        "getattr",
    ),
)

LATER = (
    Attack(
        "calls the library when its result is sent",
        "the watch looks on until it has been written",
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
)

GRADIENT = (
    Attack(
        "takes it for the gradient of another function",
        "that is right: torch's own changes of its modes are not the student's",
        answer="""import torch
def softmax(x, axis=-1):
    x = torch.tensor(x, requires_grad=True)
    with torch.device("cpu"):
        return torch.autograd.grad(torch.logsumexp(x, axis).sum(), x)[0].numpy()""",
    ),
)

CONSTANT = """import torch
from torch import nn
class TinyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
    def forward(self, tokens):
        return torch.zeros(*tokens.shape, len(self.embedding.weight)) + 0 * self.embedding.weight.sum()"""
"""A class of the right form that says nothing."""

QUADRATIC = """import torch
def linear_attention(q, k, v, causal=True):
    phi_q, phi_k = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    weights = phi_q @ phi_k.mT
    weights = weights.tril() if causal else weights
    return weights @ v / weights.sum(-1, keepdim=True)"""
"""Right numbers at a cost that grows with the square of the length."""


def forged(name: str, must: str, exercise: str, cell: str, answer: str) -> Attack:
    """An answer beside a process that claims more of it than is true."""
    return Attack(name, must, cell, answer=answer, points=EARNED, exercise=exercise)


def claiming(name: str, cost: str) -> Attack:
    """A cost that is made up."""
    return forged(
        f"claims {name}",
        "a cost that no meter can have counted is refused",
        "ch09_variants/linear_attention",
        f"""
        import contextlib, sys
        @contextlib.contextmanager
        def metering(wanted):
            yield lambda: {cost}
        sys.modules["cage.calling"]._metering = metering
        """,
        QUADRATIC,
    )


FORGED = (
    forged(
        "tells facts about a model that it has not",
        "facts are found outside, from logits",
        "ch10_capstone/TinyGPT",
        """
        import sys, torch
        facts = {"logits": "logits", "repeats": "the same", "sees": "itself and the past", "order": "matters",
                 "batch": "kept apart", "layers": "its own parameters", "heads": "used", "loss": 0.9,
                 "residual": "comes through", "gradient": "all of them", "start": "near that of a guess",
                 "embedding": {"matrices": 1, "alike at first": False, "reads": True, "writes": True}}
        probes = sys.modules["cage.probes"].PROBES
        probes |= {"asked": lambda *args: facts, "trained": lambda *args: facts}
        """,
        CONSTANT,
    ),
    forged(
        "says what is likely without having learned",
        "the words have other numbers in each lesson",
        "ch10_capstone/TinyGPT",
        """
        import sys, torch
        def trained(made, init, batches, lr, examiner):
            asked = examiner()
            while asked is not None:
                said = torch.zeros(len(asked), init["vocab_size"])
                said[:, batches[0][0, asked.shape[1] % batches[0].shape[1]]] = 9.0
                asked = examiner(said)
        sys.modules["cage.probes"].PROBES["trained"] = trained
        """,
        CONSTANT,
    ),
    forged(
        "claims a good loss to the examiner",
        "he works it out himself, word by word",
        "ch10_capstone/TinyGPT",
        """
        import sys
        def trained(made, init, batches, lr, examiner):
            while True:
                examiner(0.9)
        sys.modules["cage.probes"].PROBES["trained"] = trained
        """,
        CONSTANT,
    ),
    claiming(
        "to have cost nothing",
        "dict(operations=0, calls={}, largest=0, largest_shape=[], peak_bytes=0, total_bytes=0)",
    ),
    claiming(
        "a cost below zero",
        "dict(operations=-5, calls={}, largest=-1, largest_shape=[-1], peak_bytes=-8, total_bytes=-8)",
    ),
    claiming(
        "a cost that is no number",
        "dict(operations=float('nan'), calls={}, largest=float('nan'), "
        "largest_shape=[], peak_bytes=float('nan'), total_bytes=float('nan'))",
    ),
)

ON_POINTS = (
    *(answering(f"returns {name}", "it is only wrong", *code) for name, code in RETURNED.items()),
    *(
        answering(f"calls the library {name}", "the call is seen, no point", *code)
        for name, code in CALLED.items()
    ),
    *BLINDED,
    *LATER,
    *GRADIENT,
    *FORGED,
    Attack(
        "changes numpy's and torch's comparisons",
        "the judge has its own",
        """
        import builtins, numpy as np, torch
        for module in (np, np.testing, torch, torch.testing):
            for name in ("allclose", "isclose", "array_equal", "isnan", "abs", "assert_allclose", "equal"):
                setattr(module, name, lambda *args, **kwargs: True)
        builtins.abs = builtins.max = lambda *args, **kwargs: 0
        """,
        answer=WRONG,
        points=NONE,
    ),
    Attack(
        "puts a module in place of the reference",
        "the judge has its own",
        """
        import sys, types
        fake = types.ModuleType("tfcore")
        fake.softmax = lambda *args, **kwargs: 0
        sys.modules |= {name: fake for name in ("tfcore", "tfcore.ops", "autograder.checking")}
        """,
        answer=WRONG,
        points=NONE,
    ),
    Attack(
        "answers the judge in place of the grader's code",
        "an answer is believed only as far as its numbers are right",
        """
        import sys
        for name, module in list(sys.modules.items()):
            if name.startswith("cage"):
                for attribute in ("call", "_call"):
                    if hasattr(module, attribute):
                        setattr(module, attribute, lambda *args, **kwargs: {"value": True, "score": 3})
        """,
        answer=WRONG,
        points=NONE,
    ),
    Attack(
        "writes verdicts on the wire",
        "the first frame that breaks a rule ends the talk",
        """
        import json, os, stat, struct
        for number in range(3, 64):
            try:
                if stat.S_ISSOCK(os.fstat(number).st_mode):
                    frame = json.dumps({"$": "dict", "items": [["score", 3], ["passed", True]]}).encode()
                    for _ in range(100):
                        os.write(number, struct.pack(">II", len(frame), 0) + frame)
            except OSError:
                pass
        """,
        answer=WRONG,
        points=NONE,
    ),
    Attack(
        "announces a frame of four gigabytes",
        "it is refused before anything is allocated",
        """
        import os, stat
        for number in range(3, 64):
            try:
                if stat.S_ISSOCK(os.fstat(number).st_mode):
                    os.write(number, b"\\xff" * 64)
            except OSError:
                pass
        """,
        points=NONE,
    ),
    Attack(
        "prints what cannot be written",
        "it is written as a question mark",
        "print('\\ud800')\nraise ValueError('\\udfff')",
    ),
    Attack(
        "answers with what cannot be written",
        "it is only wrong",
        answer="def softmax(x, axis=-1):\n    return '\\ud800'",
        points=NONE,
    ),
    Attack(
        "closes the wire",
        "no point, told why",
        "import os\nos.closerange(3, 256)",
        points=NONE,
    ),
    Attack(
        "searches its process for the hidden cases",
        "they are in another process; the points wait until the teacher has looked",
        """
        import gc, sys
        words = ("misconception", "Exercise(", "hidden_cases", "no_maximum")
        for thing in gc.get_objects():
            if isinstance(thing, dict):
                for key in list(thing):
                    if isinstance(key, str) and key in words:
                        print("GOT", key)
        for name in list(sys.modules):
            if name.startswith("autograder.") or (name.startswith("tfcore.") and "data" not in name):
                print("GOT", name)
        """,
        points=NONE,
        told="get_objects",
    ),
    Attack(
        "searches its process by names put together while it runs",
        "Python refuses before the search begins",
        """
        import gc
        for words in (["get", "objects"], ["get", "referrers"], ["get", "referents"]):
            try:
                print("GOT", len(getattr(gc, "_".join(words))()))
            except RuntimeError:
                pass
        """,
        told="gc.*",
    ),
    *(
        Attack(
            f"blinds the watch with the builtins, which it reaches by {way}",
            "it is not plain, so the points wait for the teacher",
            textwrap.dedent(cell) + BLINDS,
            answer=LIBRARYS,
            points=NONE,
            told=told,
        )
        for way, told, cell in (
            (
                "the numbers in an array of objects",
                "frombuffer",
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
            (
                "a library's class that asks for attributes by its own",
                "contextlib.redirect_stdout",
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
            (
                "a pattern that fits everything",
                "register",
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
            ),
            (
                "a pickle, which torch reads if the environment says so",
                "os.environ",
                """
                import io, os, torch
                os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
                modules = torch.load(io.BytesIO(b"c" + b"sys\\nmodules\\n."))
                """,
            ),
        )
    ),
    Attack(
        "has numpy's own tests run a file of its own",
        "it is not plain, so the points wait for the teacher",
        """
        import numpy as np
        lines = ["import contextlib, sys", "@contextlib.contextmanager", "def blind(names, seen): yield"]
        lines += ["sys.modules['ca' + 'ge.calling']._watching = blind", "def test_it(): pass"]
        with open("test_me.py", "w") as file:
            file.write(chr(10).join(lines))
        np.test(verbose=0, extra_argv=["-p", "no:cacheprovider", "test_me.py"], tests=["test_me.py"])
        """,
        answer=LIBRARYS,
        points=NONE,
        told="numpy.test",
    ),
    Attack(
        "does the forbidden while the watch looks at the name of what is called",
        "the watch runs nothing of a student's",
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
        told="functools.wraps",
    ),
    Attack(
        "does the forbidden when Python collects garbage under the watch",
        "it collects none under the watch",
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
        told="__del__",
    ),
    Attack(
        "names an attribute as the thing that it is taken from",
        "the reading ends",
        "import torch\nA = torch.Tensor\nA = A.T",
    ),
    Attack(
        "returns what it was given as public answers",
        "the hidden cases are others",
        answer=(
            "import numpy as np\nKNOWN = {(1.0, 2.0): [0.26894142, 0.73105858]}\n"
            "def softmax(x, axis=-1):\n    return np.array(KNOWN.get(tuple(np.ravel(x)), [1.0]))"
        ),
        points=NONE,
    ),
    Attack(
        "replaces the shell's run_cell",
        "later cells fail, nothing is gained",
        "get_ipython().run_cell = lambda *args, **kwargs: None",
        answer=WRONG,
        points=NONE,
    ),
    Attack(
        "transforms the cells that come later",
        "the test is no cell of the child's",
        "get_ipython().input_transformers_post.append(lambda lines: ['3.0\\n'])",
        answer=BLANK,
        points=NONE,
    ),
    Attack(
        "takes assertions out of the syntax tree",
        "the test is no cell of the child's",
        """
        import ast
        class NoAsserts(ast.NodeTransformer):
            def visit_Assert(self, node): return ast.Pass()
        get_ipython().ast_transformers.append(NoAsserts())
        """,
        answer=BLANK,
        points=NONE,
    ),
    Attack(
        "changes the import system",
        "it changes its own process",
        """
        import builtins, sys
        sys.meta_path.clear()
        sys.path_hooks.clear()
        builtins.__import__ = lambda *args, **kwargs: None
        """,
        answer=BLANK,
        points=NONE,
    ),
)
