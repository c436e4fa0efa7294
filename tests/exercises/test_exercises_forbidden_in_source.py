"""A forbidden call is found in the source however it is spelt, and nothing else is."""

import pytest

from autograder.reading import forbidden_calls

CALLS = ("scipy.special.softmax", "torch.softmax", "tfcore")

REACHED = {
    "import the module": "import scipy.special\ndef softmax(x):\n    return scipy.special.softmax(x)",
    "import the module as": "import scipy.special as sp\ndef softmax(x):\n    return sp.softmax(x)",
    "import the function": "from scipy.special import softmax as s\ndef softmax(x):\n    return s(x)",
    "the import is the answer": "from scipy.special import softmax",
    "an assignment is the answer": "import torch\nsoftmax = torch.softmax",
    "deep in the package": "import torch.nn.functional as F\ndef softmax(x):\n    return F.softmax(x, -1)",
    "through a helper": "import torch\ndef h(x): return torch.softmax(x, 0)\ndef softmax(x): return h(x)",
    "through a variable": "import torch\nf = torch.softmax\ndef softmax(x):\n    return f(x, 0)",
    "imported inside": "def softmax(x):\n    from scipy.special import softmax as s\n    return s(x)",
    "a whole package": "from tfcore import ops\ndef softmax(x):\n    return ops.softmax(x)",
    "in a method": "import torch\nclass softmax:\n    def f(self, x):\n        return torch.softmax(x, 0)",
    "by getattr": "import torch\ndef softmax(x):\n    return getattr(torch, 'softmax')(x, 0)",
    "by partial": "import torch\nfrom functools import partial\nsoftmax = partial(torch.softmax, dim=0)",
    "through a helper made by partial": (
        "import torch, functools\nf = functools.partial(torch.softmax, dim=0)\ndef softmax(x): return f(x)"
    ),
    "a module made at the top": "from torch import nn\nsoftmax = nn.softmax()",
    "tried before another": (
        "import torch\ntry:\n    g = torch.softmax\nexcept Exception:\n    g = None\n"
        "def softmax(x): return g(x, 0)"
    ),
    "imported before another": (
        "try:\n    import torch as t\nexcept ImportError:\n    import numpy as t\n"
        "def softmax(x): return t.softmax(x, 0)"
    ),
    "under an if": "import torch\nif True:\n    def softmax(x):\n        return torch.softmax(x, 0)",
}


@pytest.mark.parametrize("source", REACHED.values(), ids=REACHED.keys())
def test_found(source):
    found = forbidden_calls.find([source], "softmax", CALLS)
    assert found is not None
    assert found.split(".")[0] in {"scipy", "torch", "tfcore"}


NOT_REACHED = {
    "the student's own": "def softmax(x):\n    return x\ndef f(x):\n    return softmax(x)",
    "a comparison elsewhere": "import torch\ndef softmax(x): return x\nprint(torch.softmax(softmax(1), 0))",
    "an earlier definition": "import torch\nsoftmax = torch.softmax\ndef softmax(x):\n    return x",
    "another function of torch": "import torch\ndef softmax(x):\n    return torch.exp(x)",
    "the name in a string": "import torch\ndef softmax(x):\n    return 'torch.softmax'",
    "the name in a comment": "import torch\ndef softmax(x):\n    # torch.softmax(x)\n    return x",
    "a local of the name of a comparison": (
        "import torch\ndef softmax(x):\n    e = x + 1\n    return e\ne = torch.softmax(x, 0)"
    ),
    "a parameter of the name of a comparison": (
        "import torch\ndef softmax(x): return x\nx = torch.softmax(1, 0)"
    ),
    "a local of the name of an import": (
        "from scipy.special import softmax as m\ndef softmax(x):\n    m = x.max()\n    return x - m"
    ),
    "a nested function of the name of an import": (
        "from scipy.special import softmax as g\ndef softmax(x):\n    def g(r): return r\n    return g(x)"
    ),
    "a constant computed with the library": (
        "import torch\nsize = torch.softmax(x, 0).shape\ndef softmax(x):\n    return x * size[0]"
    ),
    "an attribute of another object": "def softmax(x):\n    return x.torch.softmax",
}


@pytest.mark.parametrize("source", NOT_REACHED.values(), ids=NOT_REACHED.keys())
def test_not_found(source):
    assert forbidden_calls.find([source], "softmax", CALLS) is None


def test_a_cell_that_does_not_parse_hides_no_other():
    cells = [
        "import torch",
        "def broken(:",
        "%matplotlib inline\n!ls",
        "def softmax(x):\n    return torch.softmax(x, 0)",
    ]
    assert forbidden_calls.find(cells, "softmax", CALLS) == "torch.softmax"


def test_mutual_recursion_ends():
    assert (
        forbidden_calls.find(["def softmax(x): return f(x)\ndef f(x): return softmax(x)"], "softmax", CALLS)
        is None
    )


def test_the_functions_that_an_answer_rests_on_are_known():
    cells = ["def a(x): return x", "def b(x): return a(x)", "def c(x):\n    a = 1\n    return a", "d = 3"]
    assert forbidden_calls.uses(cells, "b") == {"a"}
    assert forbidden_calls.uses(cells, "c") == set()
    assert forbidden_calls.uses([*cells, "def e(x): return b(x) + d"], "e") == {"a", "b", "d"}
