"""A wrong answer that no bank knows is still told something it can act on."""

import numpy as np
import pytest
import torch
from exercise_bank import report_on

from autograder import exercises
from autograder.exercises import laws
from autograder.exercises.laws import not_softmax


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def attend(scores, value, mask):
    scores = scores if mask is None else np.where(mask, scores, -1e30)
    weights = softmax(scores) * (1 if mask is None else mask)
    return weights @ value, weights


def dots(query, key):
    return query @ np.swapaxes(key, -1, -2)


def root(query):
    return np.sqrt(query.shape[-1])


def causal(scores):
    return np.where(np.tril(np.ones(scores.shape, bool)), scores, -1e30)


WRONG = {
    "softmax: base 2": (
        "softmax",
        lambda x, axis=-1: softmax(x * np.log(2), axis),
        "your weights are the softmax of the scores times 0.6931",
    ),
    "softmax: exponents clipped": (
        "softmax",
        lambda x, axis=-1: np.exp(c := np.clip(x, -500, 500)) / np.exp(c).sum(axis, keepdims=True),
        "hardly follow the scores",
    ),
    "softmax: smallest first": (
        "softmax",
        lambda x, axis=-1: softmax(-x, axis),
        "softmax of the scores times -1",
    ),
    "softmax: an epsilon": (
        "softmax",
        lambda x, axis=-1: softmax(x, axis) / (1 + 1e-3),
        "sums to 0.999001; weights sum to 1",
    ),
    "softmax: squares": (
        "softmax",
        lambda x, axis=-1: x**2 / (x**2).sum(axis, keepdims=True),
        "adding 1 to every score moves a weight",
    ),
    "softmax: rounded": (
        "softmax",
        lambda x, axis=-1: np.round(softmax(x, axis), 3),
        "rounded to 3 decimals",
    ),
    "softmax: half precision": (
        "softmax",
        lambda x, axis=-1: softmax(x.astype(np.float32), axis),
        "more than by rounding",
    ),
    "softmax: half of the largest subtracted": (
        "softmax",
        lambda x, axis=-1: (
            np.exp(y := x - x.max(axis, keepdims=True) / 2) / np.exp(y).sum(axis, keepdims=True)
        ),
        "holds NaN",
    ),
    "project: a bias": (
        "project_qkv",
        lambda x, W_q, W_k, W_v: (x @ W_q + 1, x @ W_k, x @ W_v),
        "every number of result 1 is too large by 1",
    ),
    "project: a nonlinearity": (
        "project_qkv",
        lambda x, W_q, W_k, W_v: (np.tanh(x @ W_q), x @ W_k, x @ W_v),
        "doubling every token does not double the q",
    ),
    "scores: fourth root": (
        "attention_scores",
        lambda query, key: dots(query, key) / root(query) ** 0.5,
        "the factor should be 1/sqrt(d_k)",
    ),
    "scores: absolute": (
        "attention_scores",
        lambda query, key: np.abs(dots(query, key)) / root(query),
        "numbers of the right size with the wrong sign",
    ),
    "scores: distances": (
        "attention_scores",
        lambda query, key: -np.linalg.norm(query[..., :, None, :] - key[..., None, :, :], axis=-1),
        "does not score twice as high",
    ),
    "scores: the keys in reverse": (
        "attention_scores",
        lambda query, key: dots(query, key)[..., ::-1] / root(query),
        "the right numbers in the wrong places",
    ),
    "attention: fourth root": (
        "scaled_dot_product_attention",
        lambda query, key, value, mask=None: attend(dots(query, key) / root(query) ** 0.5, value, mask),
        "the factor should be 1/sqrt(d_k)",
    ),
    "attention: causal without being asked": (
        "scaled_dot_product_attention",
        lambda query, key, value, mask=None: attend(causal(dots(query, key) / root(query)), value, mask),
        "though there is no mask",
    ),
    "attention: dropout": (
        "scaled_dot_product_attention",
        lambda query, key, value, mask=None: attend(
            dots(query, key) / root(query) + np.random.rand(key.shape[-2]), value, mask
        ),
        "gives another result each time",
    ),
    "attention: output of other weights": (
        "scaled_dot_product_attention",
        lambda query, key, value, mask=None: (
            attend(2 * dots(query, key) / root(query), value, mask)[0],
            attend(dots(query, key) / root(query), value, mask)[1],
        ),
        "your output is not weights @ value",
    ),
    "lookup: distances": (
        "soft_lookup",
        lambda query, keys, values, temperature: (
            softmax(-((keys - query) ** 2).sum(1) / temperature) @ values
        ),
        "1/temperature =",
    ),
    "lookup: temperature squared": (
        "soft_lookup",
        lambda query, keys, values, temperature: softmax(keys @ query / temperature**2) @ values,
        "key . query times",
    ),
    "lookup: mean of shares": (
        "soft_lookup",
        lambda query, keys, values, temperature: softmax(keys @ query / temperature) @ values / len(keys),
        "your weights do not sum to 1",
    ),
    "stats: nothing": ("dot_product_stats", lambda d_k, num_samples, rng: None, "got None"),
    "stats: per row": (
        "dot_product_stats",
        lambda d_k, num_samples, rng: rng.normal(size=(2, num_samples)),
        "expected two numbers",
    ),
    "stats: from minus one to one": (
        "dot_product_stats",
        lambda d_k, num_samples, rng: (
            (x := rng.uniform(-1, 1, (2, num_samples, d_k)).prod(0).sum(1)).mean(),
            x.var(),
        ),
        "the variance of q . k is",
    ),
    "stats: NaN": (
        "dot_product_stats",
        lambda d_k, num_samples, rng: (rng.normal(), np.nan),
        "is nan",
    ),
    "variance: simulated": (
        "dot_product_variance",
        lambda d_k, var_q, var_k, mean_q=0.0, mean_k=0.0: d_k * var_q * var_k * 1.01,
        "if you estimate it from samples",
    ),
    "variance: not the same for q and k": (
        "dot_product_variance",
        lambda d_k, var_q, var_k, mean_q=0.0, mean_k=0.0: d_k * (var_q * var_k + var_q * mean_k**2),
        "q . k = k . q",
    ),
    "variance: subtracted": (
        "dot_product_variance",
        lambda d_k, var_q, var_k, mean_q=0.0, mean_k=0.0: (
            d_k * (var_q * var_k - var_q * mean_k**2 - var_k * mean_q**2)
        ),
        "at zero means you are right",
    ),
    "variance: root of d_k": (
        "dot_product_variance",
        lambda d_k, var_q, var_k, mean_q=0.0, mean_k=0.0: d_k**0.5 * var_q * var_k,
        "it should double",
    ),
    "Jacobian: half": (
        "softmax_jacobian",
        lambda p: np.triu(p[..., :, None] * (np.eye(p.shape[-1]) - p[..., None, :])),
        "the diagonal is right, the rest is not",
    ),
    "Jacobian: too large": (
        "softmax_jacobian",
        lambda p: 1.1 * p[..., :, None] * (np.eye(p.shape[-1]) - p[..., None, :]),
        "is 1.1 times what it should be",
    ),
    "Jacobian: by differences": (
        "softmax_jacobian",
        lambda p: p[..., :, None] * (np.eye(p.shape[-1]) - p[..., None, :]) + 1e-7,
        "more than by rounding",
    ),
    "entropy: base 10": (
        "attention_entropy",
        lambda weights, axis=-1: -(weights * np.log10(np.where(weights > 0, weights, 1))).sum(axis),
        "in base 10",
    ),
    "entropy: another epsilon": (
        "attention_entropy",
        lambda weights, axis=-1: -(weights * np.log(weights + 1e-9)).sum(axis),
        "an epsilon inside the logarithm",
    ),
    "entropy: both sides": (
        "attention_entropy",
        lambda weights, axis=-1: (
            -np.nan_to_num(weights * np.log(weights) + (1 - weights) * np.log(1 - weights)).sum(axis)
        ),
        "have at most ln",
    ),
    "entropy: small weights dropped": (
        "attention_entropy",
        lambda weights, axis=-1: -(weights * np.log(np.where(weights > 0.3, weights, 1))).sum(axis),
        "their sum is",
    ),
    "scale: a sum": (
        "scale_for_unit_variance",
        lambda d_k, var_q=1.0, var_k=1.0: 1 / np.sqrt(d_k + var_q + var_k),
        "it should be 1",
    ),
    "wkv: half precision": (
        "wkv",
        lambda w, u, k, v: exercises.find("wkv").styles[0].function(w, u, k, v).half().to(v.dtype),
        "such as an epsilon in another place, an approximation, or half precision",
    ),
    "scale: negative": (
        "scale_for_unit_variance",
        lambda d_k, var_q=1.0, var_k=1.0: -1 / np.sqrt(d_k * var_q * var_k),
        "it should be positive",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "answer", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_sentence_to_act_on(name, answer, words):
    report = report_on(name, answer)
    assert not report.passed
    assert report.diagnosis is None, "the bank knows this one: take another"
    assert words in str(report), report


def protected(epsilon):
    """The four exercises with softmax in them, each with an epsilon added to the sum of exponentials."""

    def weigh(scores, axis=-1):
        e = np.exp(scores - scores.max(axis=axis, keepdims=True))
        return e / (e.sum(axis=axis, keepdims=True) + epsilon)

    def masked(scores, mask):
        return weigh(scores) if mask is None else weigh(np.where(mask, scores, -1e30)) * mask

    def scaled_dot_product_attention(query, key, value, mask=None):
        weights = masked(dots(query, key) / root(query), mask)
        return weights @ value, weights

    def soft_lookup(query, keys, values, temperature):
        if temperature <= 0:
            raise ValueError(temperature)
        return weigh(keys @ query / temperature) @ values

    def additive_attention(query, keys, values, W_q, W_k, v, mask=None):
        weights = masked(np.tanh((query @ W_q)[:, None] + keys @ W_k) @ v, mask)
        return np.einsum("bt,btd->bd", weights, values), weights

    return {
        "softmax": weigh,
        "scaled_dot_product_attention": scaled_dot_product_attention,
        "soft_lookup": soft_lookup,
        "additive_attention": additive_attention,
    }


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1e-12, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5])
@pytest.mark.parametrize("name", protected(0))
def test_an_epsilon_in_the_sum_costs_a_quarter_of_a_point(name, epsilon):
    report = report_on(name, protected(epsilon)[name])
    if epsilon < 5e-9:
        assert report.passed, report
        return
    (failure,) = report.failures
    assert report.score == report.max_score - 0.25
    if epsilon == 1e-8:
        assert failure.misconception == "epsilon_in_the_sum"
    assert f"{epsilon:.0e} is added to the sum of the exponentials" in failure.broken


RIGHT = {
    "proportional": softmax(np.array([[0.5, -1.0, 2.0]])),
    "not normalised": 3 * softmax(np.array([[0.5, -1.0, 2.0]])),
    "a single key": np.ones((1, 1)),
}


@pytest.mark.parametrize("weights", RIGHT.values(), ids=RIGHT.keys())
def test_right_proportions_are_not_complained_about(weights):
    scores = np.array([[0.5, -1.0, 2.0]])[:, : weights.shape[1]]
    assert not_softmax(weights, scores, "the scores", 1.0) is None


def test_masked_keys_do_not_enter_the_proportions():
    scores, allowed = np.array([[0.5, -1.0, 2.0]]), np.array([[True, True, False]])
    weights = softmax(np.where(allowed, scores, -np.inf))
    assert not_softmax(weights, scores, "the scores", 1.0, allowed=allowed) is None
    weights = softmax(np.where(allowed, scores, -1.0))
    assert "weights" in not_softmax(weights, scores, "the scores", 1.0)


def test_two_weights_that_are_wrong_are_set_side_by_side():
    said = not_softmax(np.array([0.2, 0.7, 0.1]), np.array([0.0, 0.0, 1.0]), "the scores", 1.0)
    wanted = "weights 1 and 2 have the ratio 7; by exp(s_1 - s_2) with s = the scores it should be 0.368"
    assert said == wanted


@pytest.mark.slow
def test_a_cost_that_is_paid_in_another_way_names_no_mistake():
    """A mask for all pairs beside a right answer is too large, but no mistake of the bank makes one."""
    right = exercises.find("linear_attention").styles[0].function

    def linear_attention(q, k, v, causal=True):
        torch.ones(q.shape[-2], q.shape[-2], dtype=q.dtype).tril()
        return right(q, k, v, causal)

    report = report_on("ch10_beyond_attention/linear_attention", linear_attention)
    (failure,) = report.failures
    assert failure.misconception is None
    assert "largest" in failure.fault or "tensor" in failure.fault


@pytest.mark.parametrize(("digits", "told"), [(1e-6, False), (3e-4, True), (4e-3, True), (3e-2, False)])
def test_digits_that_half_precision_loses_are_seen(digits, told):
    right = np.random.default_rng(3).normal(size=(4, 5))
    got = right * (1 + digits * np.sin(7 * right))
    said = laws._narrow("the result", got, right)
    assert bool(said) is told
    assert not told or said.startswith("the result is right to about")
