"""How people write the first three chapters."""

from habits import Habit, answers_of, code
from honest_cells import IMPORTS, PLOTS

from autograder.proof.samples.notebooks import written_cells


def timed(notebook):
    """A magic over each answer."""
    for cell in answers_of(notebook):
        cell["source"] = "%%time\n" + "".join(cell["source"])


def all_in_one_cell(notebook):
    """All answers in one cell on top, and a note where each belongs."""
    first = next(i for i, cell in enumerate(notebook["cells"]) if cell["cell_type"] == "code")
    own = answers_of(notebook)
    notebook["cells"].insert(first + 1, code("\n\n\n".join("".join(cell["source"]) for cell in own)))
    for cell in own:
        cell["source"] = "# see the top"


def own_cells_deleted(notebook):
    """All answers in one cell on top, and nothing where they belong."""
    own = answers_of(notebook)
    all_in_one_cell(notebook)
    notebook["cells"] = [cell for cell in notebook["cells"] if not any(cell is one for one in own)]


def words_as_code(notebook):
    """The written answer in a code cell."""
    for cell in written_cells(notebook):
        cell |= {"cell_type": "code", "outputs": [], "execution_count": None}


CONFIGURED = Habit(
    "a configuration as a dataclass",
    "ch01_rnn_bottleneck",
    first="""
from dataclasses import asdict, dataclass, field
from enum import Enum


class Kind(str, Enum):
    RNN = "rnn"
    ATTENTION = "attention"


@dataclass(frozen=True)
class Config:
    lowest: float = -1e30
    kinds: tuple = field(default_factory=lambda: tuple(kind.value for kind in Kind))


config = Config()
print(asdict(config))
""",
    answers={
        "rnn_forward": """
from itertools import accumulate


def rnn_forward(x, h0, W_xh, W_hh, b_h):
    def step(state, x_t):
        return np.tanh(x_t @ W_xh + state @ W_hh + b_h)

    return np.stack(list(accumulate(x.swapaxes(0, 1), step, initial=h0))[1:], axis=1)
""",
        "critical_path": """
def critical_path(seq_len, num_layers, kind):
    paths = dict(zip(config.kinds, (seq_len + num_layers - 1, num_layers)))
    try:
        return paths[kind]
    except KeyError:
        raise ValueError(f"unknown kind {kind}") from None
""",
        "additive_attention": """
def masked_softmax(scores, mask=None):
    allowed = np.ones_like(scores, dtype=bool) if mask is None else mask
    scores = np.where(allowed, scores, config.lowest)
    e = np.exp(scores - scores.max(-1, keepdims=True)) * allowed
    return e / np.maximum(e.sum(-1, keepdims=True), 1e-30)
---
def additive_attention(query, keys, values, W_q, W_k, v, mask=None):
    hidden = np.tanh((query @ W_q)[:, None, :] + keys @ W_k)
    weights = masked_softmax(hidden @ v, mask)
    return np.einsum("bt,btd->bd", weights, values), weights
""",
    },
)

TIMED = Habit(
    "magics over the answers, asserts and prints under them",
    "ch01_rnn_bottleneck",
    first="%load_ext autoreload\n%autoreload 2\n%matplotlib inline",
    last="""
states = rnn_forward(np.ones((1, 2, 3)), np.zeros((1, 4)), np.ones((3, 4)), np.eye(4), np.zeros(4))
assert states.shape == (1, 2, 4)
print("all tests passed ✅")
---
%timeit -n 1 -r 1 critical_path(10, 2, "rnn")
---
for kind in ("rnn", "attention", "lstm"):
    print(kind, critical_path(10, 2, kind))
""",
    change=timed,
)

MIXINS = Habit(
    "a class with mixins, whose methods are the answers",
    "ch02_qkv",
    first="""
class SoftmaxMixin:
    def softmax(self, x, axis=-1):
        e = np.exp(x - np.max(x, axis=axis, keepdims=True))
        return e / np.sum(e, axis=axis, keepdims=True)


class ScoresMixin:
    def attention_scores(self, query, key):
        return np.einsum("...id,...jd->...ij", query, key) / query.shape[-1] ** 0.5


class Attention(SoftmaxMixin, ScoresMixin):
    def __init__(self, fill=-np.inf):
        for name, value in dict(fill=fill, calls=0).items():
            setattr(self, name, value)

    def __call__(self, query, key, value, mask=None):
        self.calls += 1
        scores = self.attention_scores(query, key)
        if mask is None:
            weights = self.softmax(scores)
        else:
            weights = np.nan_to_num(self.softmax(np.where(mask, scores, -1e300))) * mask
        return weights @ value, weights


model = Attention()
""",
    answers={
        "softmax": "softmax = model.softmax",
        "project_qkv": """
class Projections:
    def __init__(self, **matrices):
        vars(self).update(matrices)

    def __call__(self, x):
        return tuple(x @ getattr(self, f"W_{name}") for name in "qkv")


def project_qkv(x, W_q, W_k, W_v):
    return Projections(W_q=W_q, W_k=W_k, W_v=W_v)(x)
""",
        "attention_scores": "attention_scores = getattr(model, 'attention_scores')",
        "scaled_dot_product_attention": "scaled_dot_product_attention = model",
        "soft_lookup": """
def soft_lookup(query, keys, values, temperature):
    assert isinstance(model, SoftmaxMixin)
    if not temperature > 0:
        raise ValueError("temperature")
    return model.softmax(keys @ query / temperature) @ values
""",
    },
)

WRAPPED = Habit(
    "decorators, caches, partials and lambdas",
    "ch02_qkv",
    first="""
from functools import lru_cache, partial, reduce, wraps
from operator import matmul

SHAPES = []
VERBOSE = False


def logged(function):
    @wraps(function)
    def inner(*args, **kwargs):
        result = function(*args, **kwargs)
        SHAPES.append(function.__name__)
        if VERBOSE:
            print(function.__name__, np.shape(result))
        return result

    return inner


@lru_cache(maxsize=None)
def root(d_k):
    return math.sqrt(d_k)
""",
    answers={
        "softmax": """
def normalised(power, x, axis=-1):
    e = power(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


softmax = partial(normalised, np.exp)
""",
        "project_qkv": "project_qkv = lambda x, *W: tuple(map(partial(matmul, x), W))",
        "attention_scores": """
@logged
def attention_scores(query, key):
    return query @ np.moveaxis(key, -1, -2) / root(query.shape[-1])
""",
        "scaled_dot_product_attention": """
@logged
def scaled_dot_product_attention(query, key, value, mask=None):
    scores = attention_scores(query, key)
    keep = np.broadcast_to(True if mask is None else mask, scores.shape)
    weights = softmax(np.where(keep, scores, np.finfo(scores.dtype).min / 2)) * keep
    return weights @ value, weights
""",
        "soft_lookup": """
def soft_lookup(query, keys, values, temperature):
    if temperature <= 0: raise ValueError('temperature must be positive')
    return reduce(matmul, [softmax(keys @ query / temperature), values])
1 / 0  # does the grader see this?
""",
    },
    last="print(len(SHAPES), root.cache_info())",
)

HELPER = Habit(
    "a module that a magic writes",
    "ch02_qkv",
    first="""
%%writefile my_tools.py
import numpy as np

def normalise(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
---
import importlib
import my_tools
importlib.reload(my_tools)
from my_tools import *
---
!ls -la
files = !ls
""",
    answers={
        "softmax": "def softmax(x, axis=-1):\n    return my_tools.normalise(x, axis)",
        "soft_lookup": """
%run my_tools.py
def soft_lookup(query, keys, values, temperature):
    if temperature <= 0:
        raise ValueError
    return normalise(keys @ query / temperature, axis=0) @ values
""",
    },
)

PROSE = Habit(
    "prose in code cells, and the written answer in one",
    "ch02_qkv",
    first="Notes from the lecture: Q asks, K answers\n---\nfrom numpy import *\nimport numpy as np",
    answers={
        "softmax": """
I subtract the maximum so that exp does not overflow
---
def softmax(x, axis=-1):
    z = exp(x - x.max(axis=axis, keepdims=True))
    return z / z.sum(axis=axis, keepdims=True)
""",
        "attention_scores": """
def attention_scores(query, key):
    return query @ key.T  # first try, only 2-D
---
def attention_scores(query, key):
    return query @ swapaxes(key, -1, -2) / sqrt(query.shape[-1])
""",
    },
    last="What I learned: the mask must come before the softmax!!\n---\ndef unfinished(x):",
    change=words_as_code,
)

TYPED = Habit(
    "type hints, global constants, doctests",
    "ch03_scaling",
    first="""
from __future__ import annotations

from typing import Final, TypeAlias

Array: TypeAlias = np.ndarray
SMALLEST: Final[float] = 1e-300
""",
    answers={
        "dot_product_stats": '''
def dot_product_stats(d_k: int, num_samples: int, rng: np.random.Generator) -> tuple[float, float]:
    """Mean and variance.

    >>> len(dot_product_stats(2, 3, np.random.default_rng(0)))
    2
    """
    q, k = rng.standard_normal((2, num_samples, d_k))
    dots: Array = np.einsum("nd,nd->n", q, k)
    return float(np.mean(dots)), float(np.var(dots))
''',
        "attention_entropy": """
def attention_entropy(weights: Array, axis: int = -1) -> Array:
    def term(p: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(p > 0, -p * np.log(p), 0.0)

    return term(weights).sum(axis=axis)
""",
    },
    last="import doctest\ndoctest.testmod(verbose=False)\n---\nreveal_type(SMALLEST)",
)

IN_ONE_CELL = Habit("all answers in one cell on top", "ch03_scaling", last=IMPORTS, change=all_in_one_cell)

DELETED = Habit(
    "the cells of the answers deleted, all in one on top", "ch02_qkv", first=PLOTS, change=own_cells_deleted
)

OF_NUMPY = [CONFIGURED, TIMED, MIXINS, WRAPPED, HELPER, PROSE, TYPED, IN_ONE_CELL, DELETED]
