"""Declare attempts to get points without a right answer: false reports, changed libraries, fixed answers."""

from autograder.proof.attacks.attack import EARNED, NONE, Attack

BLANK = "def softmax(x, axis=-1):\n    raise NotImplementedError()"
WRONG = "import numpy as np\ndef softmax(x, axis=-1):\n    return np.zeros(np.shape(x))"


def answering(name: str, must: str, expression: str, before: str = "import numpy as np") -> Attack:
    """Return an attack whose answer returns the value of an expression."""
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
"""Odd values by name: an expression, and the source before the answer."""

CONSTANT = """import torch
from torch import nn
class TinyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
    def forward(self, tokens):
        return torch.zeros(*tokens.shape, len(self.embedding.weight)) + 0 * self.embedding.weight.sum()"""
"""A class with the right interface that always returns zeros."""

QUADRATIC = """import torch
def linear_attention(q, k, v, causal=True):
    phi_q, phi_k = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    weights = phi_q @ phi_k.mT
    weights = weights.tril() if causal else weights
    return weights @ v / weights.sum(-1, keepdim=True)"""
"""Right results at a cost that grows with the square of the length."""


def forged(
    name: str, must: str, exercise: str, cell: str, answer: str, remark: str = "cage.probes"
) -> Attack:
    """Return an attack whose cell makes its process report false facts about the answer."""
    return Attack(name, must, cell, answer=answer, points=EARNED, exercise=exercise, remark=remark)


def claiming(name: str, cost: str) -> Attack:
    """Return an attack that reports a made-up cost."""
    return forged(
        f"claims {name}",
        "the grader refuses a cost that no meter can count",
        "ch10_beyond_attention/linear_attention",
        f"""
        import contextlib, sys
        @contextlib.contextmanager
        def metering(wanted):
            yield lambda: {cost}
        sys.modules["cage.calling"]._metering = metering
        """,
        QUADRATIC,
        "cage.calling",
    )


FORGED = (
    forged(
        "reports facts about a model that it does not have",
        "the grader computes the facts outside, from logits",
        "ch11_capstone/TinyGPT",
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
        "gives likely words without training",
        "each lesson numbers the words differently",
        "ch11_capstone/TinyGPT",
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
        "the examiner computes the loss itself, word by word",
        "ch11_capstone/TinyGPT",
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
    *(answering(f"returns {name}", "the answer is wrong", *code) for name, code in RETURNED.items()),
    *FORGED,
    Attack(
        "changes numpy's and torch's comparisons",
        "the judge compares in another process",
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
        "the judge imports the reference in another process",
        """
        import sys, types
        fake = types.ModuleType("tfcore")
        fake.softmax = lambda *args, **kwargs: 0
        sys.modules |= {name: fake for name in ("tfcore", "tfcore.ops", "autograder.checking.examination")}
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
        remark="cage",
    ),
    Attack(
        "writes verdicts on the wire",
        "the first frame that breaks a rule ends the connection",
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
        remark="os.fstat",
    ),
    Attack(
        "announces a frame of four gigabytes",
        "the frame is refused before memory is allocated",
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
        remark="os.write",
    ),
    Attack(
        "prints what cannot be written",
        "the character is written as a question mark",
        "print('\\ud800')\nraise ValueError('\\udfff')",
    ),
    Attack(
        "answers with what cannot be written",
        "the answer is wrong",
        answer="def softmax(x, axis=-1):\n    return '\\ud800'",
        points=NONE,
    ),
    Attack(
        "closes the wire",
        "no points, and the report names the reason",
        "import os\nos.closerange(3, 256)",
        points=NONE,
        remark="os.closerange",
    ),
    Attack(
        "searches its process for the hidden cases",
        "the hidden cases are in another process",
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
        remark="gc.get_objects",
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
        remark="gc...",
    ),
    Attack(
        "returns what it was given as public answers",
        "the hidden cases differ from the public cases",
        answer=(
            "import numpy as np\nKNOWN = {(1.0, 2.0): [0.26894142, 0.73105858]}\n"
            "def softmax(x, axis=-1):\n    return np.array(KNOWN.get(tuple(np.ravel(x)), [1.0]))"
        ),
        points=NONE,
    ),
    Attack(
        "replaces the shell's run_cell",
        "later cells fail, and the submission gets no points",
        "get_ipython().run_cell = lambda *args, **kwargs: None",
        answer=WRONG,
        points=NONE,
        remark="run_cell =",
    ),
    Attack(
        "transforms the cells that come later",
        "the test does not run in the child",
        "get_ipython().input_transformers_post.append(lambda lines: ['3.0\\n'])",
        answer=BLANK,
        points=NONE,
    ),
    Attack(
        "takes assertions out of the syntax tree",
        "the test does not run in the child",
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
        "only the process of the submission changes",
        """
        import builtins, sys
        sys.meta_path.clear()
        sys.path_hooks.clear()
        builtins.__import__ = lambda *args, **kwargs: None
        """,
        answer=BLANK,
        points=NONE,
        remark="sys.meta_path",
    ),
)
