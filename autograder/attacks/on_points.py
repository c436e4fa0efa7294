"""Attempts to have points without a right answer: lies to the judge, changed libraries, fixed answers."""

from autograder.attacks.attack import NONE, Attack

BLANK = "def softmax(x, axis=-1):\n    raise NotImplementedError()"
WRONG = "import numpy as np\ndef softmax(x, axis=-1):\n    return np.zeros(np.shape(x))"


def returning(name: str, expression: str, before: str = "import numpy as np") -> Attack:
    """An answer that returns something odd."""
    return Attack(
        f"returns {name}",
        "it is only wrong",
        answer=f"{before}\ndef softmax(x, axis=-1):\n    return {expression}",
        points=NONE,
    )


def calling(name: str, expression: str, before: str) -> Attack:
    """An answer that calls the library function which the exercise asks for."""
    return Attack(
        f"calls the library {name}",
        "the call is seen, no point",
        answer=f"{before}\ndef softmax(x, axis=-1):\n    return {expression}",
        points=NONE,
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

ON_POINTS = (
    returning("an object that equals everything", "Yes()", EQUAL),
    returning("a nest of lists", "nested()", NESTED),
    returning("a list that holds itself", "loop", ITSELF),
    returning("a thousand million numbers", "np.zeros(10**9, np.int8)"),
    returning("a number of a million digits", "10 ** 1_000_000"),
    returning("numbers that are none", "x * np.nan"),
    returning("numbers without end", "x * np.inf"),
    returning("texts for numbers", "np.full(np.shape(x), '0.5')"),
    returning("objects for numbers", "np.asarray(x).astype(object)"),
    returning("complex numbers", "np.asarray(x) + 0j"),
    returning("another dtype", "np.asarray(x).astype(np.int8)"),
    returning(
        "a class of arrays of its own",
        "np.asarray(x).view(Odd)",
        "import numpy as np\nclass Odd(np.ndarray): pass",
    ),
    calling("by another name", "sm(x, axis)", "from scipy.special import softmax as sm"),
    calling("by getattr", "getattr(torch, 'soft' + 'max')(torch.tensor(x), axis).numpy()", "import torch"),
    calling(
        "by importlib",
        "getattr(importlib.import_module('scipy.special'), 'soft' + 'max')(x, axis)",
        "import importlib",
    ),
    calling("by torch.ops", "torch.ops.aten.softmax(torch.tensor(x), axis).numpy()", "import torch"),
    calling(
        "by the operator below",
        "torch.ops.aten._softmax(torch.tensor(x), axis, False).numpy()",
        "import torch",
    ),
    calling("as a method", "getattr(torch.tensor(x), 'soft' + 'max')(axis).numpy()", "import torch"),
    calling("as a module", "vars(torch.nn)['Soft' + 'max'](axis)(torch.tensor(x)).numpy()", "import torch"),
    calling(
        "through map",
        "next(map(f, [torch.tensor(x)], [axis])).numpy()",
        "import torch\nf = vars(torch)['soft' + 'max']",
    ),
    calling(
        "through partial",
        "f(torch.tensor(x)).numpy()",
        "import functools, torch\nf = functools.partial(getattr(torch, 'soft' + 'max'), dim=-1)",
    ),
    calling(
        "with the watch switched off",
        "run(torch.tensor(x), axis)",
        "import sys, torch\ndef run(x, axis):\n    before = sys.getprofile()\n    sys.setprofile(None)\n"
        "    try:\n        return getattr(torch, 'soft' + 'max')(x, axis).numpy()\n    finally:\n"
        "        sys.setprofile(before)",
    ),
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
                        os.write(number, struct.pack(">I", len(frame)) + frame)
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
        "they are in another process",
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
