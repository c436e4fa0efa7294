"""Chapter 1: answers that no bank knows, and the numbers that the notebook tells."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from exercise_bank import report_on

SOLUTION = Path(__file__).parents[2] / "solutions" / "ch01_rnn_bottleneck" / "ch01_rnn_bottleneck.ipynb"


def recurrent(step):
    """An rnn_forward with another step: step(x_t, h, W_xh, W_hh, b_h, t)."""

    def rnn_forward(x, h0, W_xh, W_hh, b_h):
        h, states = h0, []
        for t in range(x.shape[1]):
            h = step(x[:, t], h, W_xh, W_hh, b_h, t)
            states.append(h)
        return np.stack(states, axis=1)

    return rnn_forward


def norms_of(factor, norm=lambda M: np.linalg.norm(M, ord=2)):
    """A gradient_norms with another factor, or another norm."""

    def gradient_norms(h, W_hh):
        total, norms = np.eye(h.shape[1]), np.ones(len(h))
        for t in range(len(h) - 2, -1, -1):
            total = total @ factor(h[t + 1], W_hh)
            norms[t] = norm(total)
        return norms

    return gradient_norms


def factor(state, W_hh):
    return (1 - state**2)[:, None] * W_hh.T


def further_back(h):
    """Where a state lies more than one step back."""
    return np.arange(len(h))[::-1] > 1


def paths(recurrent, attention=lambda T, L: L):
    def critical_path(seq_len, num_layers, kind):
        if kind not in ("rnn", "attention"):
            raise ValueError(kind)
        return {"rnn": recurrent, "attention": attention}[kind](seq_len, num_layers)

    return critical_path


def attention(score=None, softmax=None, blend=None):
    """An additive_attention with another score, another softmax or another context."""

    def additive_score(query, keys, W_q, W_k, v):
        return np.tanh((query @ W_q)[:, None] + keys @ W_k) @ v

    def masked_softmax(scores, mask):
        mask = np.ones(scores.shape, bool) if mask is None else mask
        scores = np.where(mask, scores, -1e30)
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return mask * e / e.sum(axis=-1, keepdims=True)

    def sum_of_values(weights, values):
        return np.einsum("bt,btd->bd", weights, values)

    def additive_attention(query, keys, values, W_q, W_k, v, mask=None):
        weights = (softmax or masked_softmax)((score or additive_score)(query, keys, W_q, W_k, v), mask)
        return (blend or sum_of_values)(weights, values), weights

    return additive_attention


WRONG = {
    "rnn: relu": (
        "rnn_forward",
        recurrent(lambda x, h, W_xh, W_hh, b_h, t: np.maximum(0, x @ W_xh + h @ W_hh + b_h)),
        "tanh keeps every state between -1 and 1",
    ),
    "rnn: the mean of the batch handed on": (
        "rnn_forward",
        recurrent(lambda x, h, W_xh, W_hh, b_h, t: np.tanh(x @ W_xh + h.mean(0) @ W_hh + b_h)),
        "the sequences of a batch do not affect each other",
    ),
    "rnn: a bias at the first step alone": (
        "rnn_forward",
        recurrent(lambda x, h, W_xh, W_hh, b_h, t: np.tanh(x @ W_xh + h @ W_hh + b_h * (t == 0))),
        "state 1, unit 0: x_t W_xh + h_before W_hh + b_h is",
    ),
    "rnn: nothing handed on": (
        "rnn_forward",
        recurrent(lambda x, h, W_xh, W_hh, b_h, t: np.tanh(x @ W_xh + b_h)),
        "leaves state 1 as it was",
    ),
    "rnn: the next token": (
        "rnn_forward",
        lambda x, h0, W_xh, W_hh, b_h: recurrent(
            lambda x_t, h, W_xh, W_hh, b_h, t: np.tanh(
                x[:, min(t + 1, x.shape[1] - 1)] @ W_xh + h @ W_hh + b_h
            )
        )(x, h0, W_xh, W_hh, b_h),
        "a state knows the tokens up to its own",
    ),
    "norms: the largest column sum": (
        "gradient_norms",
        norms_of(factor, lambda M: np.linalg.norm(M, ord=1)),
        "is its largest column sum; the spectral norm, ord=2",
    ),
    "norms: the slope of a sigmoid": (
        "gradient_norms",
        norms_of(lambda state, W_hh: np.diag(state * (1 - state)) @ W_hh.T),
        "its largest singular value is",
    ),
    "norms: a determinant": (
        "gradient_norms",
        norms_of(factor, lambda M: np.linalg.det(M) - 1),
        "a norm is never negative",
    ),
    "norms: logarithms": (
        "gradient_norms",
        lambda h, W_hh: np.log(norms_of(factor)(h, W_hh)),
        "dh_T/dh_T is the identity",
    ),
    "norms: a bit of the first state": (
        "gradient_norms",
        lambda h, W_hh: (
            norms_of(factor)(h, W_hh) * np.where(np.arange(len(h))[::-1] > 1, 1 - h[0, 0] ** 2, 1)
        ),
        "no step leads into the first state",
    ),
    "norms: a factor too many from two on": (
        "gradient_norms",
        lambda h, W_hh: norms_of(factor)(h, W_hh) * np.where(further_back(h), np.linalg.norm(W_hh, 2), 1.0),
        "W_hh doubled, at the same states",
    ),
    "path: half of the corner": ("critical_path", paths(lambda T, L: T + L - 0.5), "come in whole numbers"),
    "path: the shorter side": ("critical_path", paths(min), "state t is made from state t - 1"),
    "path: two more": (
        "critical_path",
        paths(lambda T, L: T + L + 1),
        "token 3 at step 4, where the path ends",
    ),
    "path: a tree over the tokens": (
        "critical_path",
        paths(lambda T, L: T + L - 1, lambda T, L: L * (1 + int(np.ceil(np.log2(T))))),
        "the new layer reads the one below, all tokens at once",
    ),
    "path: one layer left out": (
        "critical_path",
        paths(lambda T, L: T + L - 1, lambda T, L: L - 1),
        "no fewer than 2 steps",
    ),
    "attention: half of the score": (
        "additive_attention",
        attention(lambda query, keys, W_q, W_k, v: np.tanh((query @ W_q)[:, None] + keys @ W_k) @ v / 2),
        "times 0.5; the factor should be 1",
    ),
    "attention: the square of the keys' part alone": (
        "additive_attention",
        attention(lambda query, keys, W_q, W_k, v: (keys @ W_k) ** 2 @ v),
        "another query gets the same weights",
    ),
    "attention: the mean of all queries": (
        "additive_attention",
        attention(lambda query, keys, W_q, W_k, v: np.tanh(query.mean(0) @ W_q + keys @ W_k) @ v),
        "the sequences of a batch do not affect each other",
    ),
    "attention: the last key left out": (
        "additive_attention",
        attention(
            softmax=lambda scores, mask: (
                (e := np.exp(scores) * (np.arange(scores.shape[1]) < 2)) / e.sum(axis=-1, keepdims=True)
            )
        ),
        "every key that is allowed gets a share",
    ),
    "attention: divided by the root of T": (
        "additive_attention",
        attention(
            blend=lambda weights, values: np.einsum("bt,btd->bd", weights, values) / values.shape[1] ** 0.5
        ),
        "your context is not the sum of the values",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "answer", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_sentence_to_act_on(name, answer, words):
    report = report_on(name, answer, shrinking=True)
    assert not report.passed
    assert report.diagnosis is None, "the bank knows this one: take another"
    assert words in str(report), report


@pytest.mark.parametrize(
    "cleaned", [str.lower, lambda kind: kind[:3] if kind.startswith("rnn") else kind.removeprefix("self-")]
)
def test_a_kind_is_compared_as_it_stands(cleaned):
    right = paths(lambda T, L: T + L - 1)
    report = report_on(
        "critical_path", lambda seq_len, num_layers, kind: right(seq_len, num_layers, cleaned(kind))
    )
    assert report.score == 1.5
    assert "expected a ValueError to be raised here" in str(report)


def read_in_columns(x, h0, W_xh, W_hh, b_h):
    h, states = h0.T, []
    for t in range(x.shape[1]):
        h = np.tanh(W_xh.T @ x[:, t].T + W_hh.T @ h + b_h[:, None])
        states.append(h)
    return np.array(states).transpose(2, 0, 1)


def multiplied_in_the_best_order(h, W_hh):
    factors = [factor(state, W_hh) for state in h[::-1]]
    products = [np.eye(len(W_hh)), factors[0], *(np.linalg.multi_dot(factors[:n]) for n in range(2, len(h)))]
    return np.array([np.linalg.norm(M, ord=2) for M in products[: len(h)]])[::-1]


def longest_path(seq_len, num_layers, kind):
    if kind not in ("rnn", "attention"):
        raise ValueError(kind)

    @functools.cache
    def step(layer, t):
        waits_for = [step(layer - 1, t)] if layer > 1 else []
        if kind == "rnn" and t > 1:
            waits_for.append(step(layer, t - 1))
        return 1 + max(waits_for, default=0)

    return max(step(num_layers, t) for t in range(1, seq_len + 1))


def masked_array(query, keys, values, W_q, W_k, v, mask=None):
    scores = np.tanh((query @ W_q)[:, None] + keys @ W_k) @ v
    scores = np.ma.array(scores, mask=np.zeros(scores.shape, bool) if mask is None else ~mask)
    e = np.ma.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = (e / e.sum(axis=-1, keepdims=True)).filled(0)
    return (weights[:, None] @ values)[:, 0], weights


RIGHT = {
    "rnn_forward": read_in_columns,
    "gradient_norms": multiplied_in_the_best_order,
    "critical_path": longest_path,
    "additive_attention": masked_array,
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "answer"), RIGHT.items(), ids=RIGHT.keys())
def test_a_style_that_no_bank_knows_gets_full_points(name, answer):
    report = report_on(name, answer)
    assert report.passed, report


@pytest.mark.parametrize("layer", [torch.nn.RNN, torch.nn.RNNCell])
def test_torch_reading_the_sequence_is_seen(layer):
    def rnn_forward(x, h0, W_xh, W_hh, b_h):
        layer(*W_xh.shape)(torch.ones(1, W_xh.shape[0]))
        return x

    assert report_on("rnn_forward", rnn_forward).status == "forbidden"


@pytest.mark.slow
def test_no_query_and_a_tanh_of_each_part_are_one_mistake():
    def no_query(query, keys, values, W_q, W_k, v, mask=None):
        score = attention(lambda query, keys, W_q, W_k, v: np.tanh(keys @ W_k) @ v)
        return score(query, keys, values, W_q, W_k, v, mask)

    assert report_on("additive_attention", no_query).diagnosis == "tanh_of_each"


def over_axis_0(scores, mask):
    mask = np.ones(scores.shape, bool) if mask is None else mask
    scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=0))
    return mask * e / e.sum(axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_softmax_over_axis_0_is_told_by_its_sums(seed):
    report = report_on("additive_attention", attention(softmax=over_axis_0), seed)
    assert report.diagnosis == "softmax_over_the_batch"
    assert "weights sum to 1 over the keys" in report.failures[0].broken
    assert "another query" not in str(report)


@pytest.fixture(scope="module")
def solved():
    """The names that the solution notebook defines, its picture included."""
    namespace = {}
    for cell in json.loads(SOLUTION.read_text("utf8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and not source.startswith("check("):
            exec(compile(source.replace("plt.show()", "plt.close()"), cell["id"], "exec"), namespace)
    return namespace


class TestWhatTheNotebookSays:
    def test_from_keys_to_were_are_21_steps(self):
        story = SOLUTION.read_text("utf8").partition("> The **keys**")[2].partition("gone")[0]
        words = story.replace("**", "").replace(",", "").split()
        assert words.index("were") + 1 == 21

    @pytest.mark.slow
    def test_the_examples_by_hand(self, solved):
        x, half = np.array([[[1.0], [0.0], [0.0]]]), np.array([[0.5]])
        h = solved["rnn_forward"](x, np.zeros((1, 1)), np.eye(1), half, np.zeros(1))
        assert h.ravel() == pytest.approx([0.762, 0.363, 0.180], abs=5e-4)
        assert solved["gradient_norms"](h[0], half) == pytest.approx([0.210, 0.484, 1], abs=5e-4)
        W_hh = np.array([[0, 2], [0.5, 0]])
        assert solved["gradient_norms"](np.zeros((3, 2)), W_hh) == pytest.approx([1, 2, 1])
        assert [solved["critical_path"](4, 2, kind) for kind in ("rnn", "attention")] == [5, 2]

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("query", "weights", "context"), [(0, (0.25, 0.75, 0), 5), (50, (0.5, 0.5, 0), 6)]
    )
    def test_the_example_of_attention_by_hand(self, solved, query, weights, context):
        keys, values = np.array([[[0.0], [50], [-50]]]), np.array([[[8.0], [4], [100]]])
        v, mask = np.log([3.0]), np.array([[True, True, False]])
        found = solved["additive_attention"](np.array([[query]]), keys, values, np.eye(1), np.eye(1), v, mask)
        assert found[1][0] == pytest.approx(weights)
        assert found[0].item() == pytest.approx(context)

    @pytest.mark.slow
    def test_the_curves(self, solved):
        """The numbers of the model answer to (a) and (b)."""
        curves, weights = solved["curves"], solved["weights"]
        assert curves[1][0] == pytest.approx(1e-4, rel=0.5)
        assert curves[3][0] == pytest.approx(1e7, rel=0.5)
        assert 0.001 < weights.min() < weights.max() < 0.08
        W_hh = 3 * solved["random_W"]
        h = solved["rnn_forward"](solved["x"], np.zeros((1, 32)), solved["W_xh"], W_hh, np.zeros(32))
        assert (1 - h**2).mean() == pytest.approx(0.37, abs=5e-3)


def written_after_softmax(fill):
    def softmax(scores, mask):
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = e / e.sum(axis=-1, keepdims=True)
        return weights if mask is None else np.where(mask, weights, fill)

    return attention(softmax=softmax)


@pytest.mark.slow
@pytest.mark.parametrize("fill", [-np.inf, np.nan, -1e9, -1.0, 0.0])
def test_a_mask_after_softmax_is_seen_whatever_it_writes(fill):
    report = report_on("additive_attention", written_after_softmax(fill), shrinking=True)
    assert 0 < report.score < 3
    assert "the mask comes after softmax" in report.failures[0].broken


def last_norm_in_empty(h, W_hh):
    norms, total = np.empty_like(h[:, 0]), np.identity(len(W_hh))
    for back, state in enumerate(h[:0:-1], 2):
        total = total @ factor(state, W_hh)
        norms[-back] = np.linalg.svd(total, compute_uv=False)[0]
    return norms


def weights_in_empty(scores, mask):
    weights = np.empty(scores.shape)
    for row, out, allowed in zip(
        scores, weights, np.ones(scores.shape, bool) if mask is None else mask, strict=True
    ):
        if allowed.any():
            e = np.exp(row[allowed] - row[allowed].max())
            out[allowed] = e / e.sum()
    return weights


def states_in_empty(x, h0, W_xh, W_hh, b_h):
    h = np.empty((*x.shape[:2], len(b_h)))
    for t in range(1, x.shape[1]):
        h[:, t] = np.tanh(x[:, t] @ W_xh + (h[:, t - 1] if t > 1 else h0) @ W_hh + b_h)
    return h


UNWRITTEN = {
    "the last norm": ("gradient_norms", last_norm_in_empty, "np.empty sets no value"),
    "weights of forbidden keys": ("additive_attention", attention(softmax=weights_in_empty), "np.empty"),
    "state 0": ("rnn_forward", states_in_empty, "memory that was never written"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "answer", "words"), UNWRITTEN.values(), ids=UNWRITTEN.keys())
def test_memory_that_was_never_written_is_named(name, answer, words):
    report = report_on(name, answer)
    assert not report.passed
    assert words in str(report)


SLIPS = {
    "weights first": ("additive_attention", lambda *args, **mask: attention()(*args, **mask)[::-1]),
    "a mean for the sum": (
        "additive_attention",
        attention(blend=lambda weights, values: (weights[:, :, None] * values).sum(1) / values.shape[1]),
    ),
    "an axis left over": (
        "additive_attention",
        attention(blend=lambda weights, values: np.einsum("bt,btd->bd", weights, values)[:, None]),
    ),
    "another norm": ("gradient_norms", norms_of(factor, np.linalg.norm)),
    "T + L": ("critical_path", paths(lambda T, L: T + L)),
    "time in front": ("rnn_forward", lambda *args: read_in_columns(*args).swapaxes(0, 1)),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "answer"), SLIPS.values(), ids=SLIPS.keys())
def test_one_slip_keeps_more_than_half_and_is_named(name, answer):
    report = report_on(name, answer)
    assert not report.passed
    assert report.diagnosis
    assert report.score > report.max_score / 2


@pytest.mark.slow
@pytest.mark.parametrize("masked", [lambda mask: None, lambda mask: None if mask is None else ~mask])
def test_without_its_mask_attention_stays_under_half(masked):
    def additive_attention(query, keys, values, W_q, W_k, v, mask=None):
        return attention()(query, keys, values, W_q, W_k, v, masked(mask))

    report = report_on("additive_attention", additive_attention)
    assert report.diagnosis in ("mask_ignored", "mask_inverted")
    assert report.score < 3


def test_weights_of_a_wrong_shape_are_shown_before_a_wrong_context():
    def one_sum(scores, mask):
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return e.sum(axis=-1, keepdims=True)

    report = report_on("additive_attention", attention(softmax=one_sum))
    assert "`weights` (result 2 of 2): expected shape" in report.failures[0].fault


def divided_out(h, W_hh):
    """Right on paper: from state to state by an inverse."""
    steps = [factor(state, W_hh) for state in h.astype(float)]
    total, norms = np.eye(len(W_hh)), []
    for step in steps[1:]:
        total = step @ total
    for step in [*steps[1:], np.eye(len(W_hh))]:
        norms.append(np.linalg.norm(total, ord=2))
        total = total @ np.linalg.inv(step)
    return np.array(norms)


@pytest.mark.slow
def test_rounding_that_grows_is_explained():
    report = report_on("gradient_norms", divided_out)
    assert not report.passed
    assert report.diagnosis is None, "the numbers are rounding alone, so no two machines agree"
    assert "rounding grows, as it does with an inverse" in str(report)
