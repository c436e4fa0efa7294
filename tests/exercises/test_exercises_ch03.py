"""Chapter 3: what is published gets full marks."""

import numpy as np
import pytest
import torch
from exercise_bank import PUBLIC_SEED, report_on


def backward(p):
    """The backward pass of softmax, as libraries have it, for a push on each output in turn."""
    pushes = [np.broadcast_to(push, p.shape) for push in np.eye(p.shape[-1])]
    return np.stack([p * (g - (g * p).sum(-1, keepdims=True)) for g in pushes], axis=-2)


def diagflat(p):
    """As tutorials on backpropagation have it, row by row."""

    def of_a_row(row):
        s = row.reshape(-1, 1)
        return np.diagflat(s) - np.dot(s, s.T)

    return np.stack([of_a_row(row) for row in p.reshape(-1, p.shape[-1])]).reshape(*p.shape, -1)


def einsum(p):
    return np.einsum("...i,ij->...ij", p, np.eye(p.shape[-1])) - np.einsum("...i,...j->...ij", p, p)


def scipys_entr(weights, axis=-1):
    from scipy.special import entr

    return entr(weights).sum(axis=axis)


def xlogy(weights, axis=-1):
    """torch.distributions.Categorical's sum, whose 0 log 0 is 0."""
    w = torch.from_numpy(np.ascontiguousarray(weights))
    return -torch.xlogy(w, w).sum(axis).numpy()


def welford(d_k, num_samples, rng):
    """Mean and variance in one pass, sample by sample."""
    mean = squares = 0.0
    for n in range(1, num_samples + 1):
        x = rng.standard_normal(d_k) @ rng.standard_normal(d_k)
        step = x - mean
        mean += step / n
        squares += step * (x - mean)
    return mean, squares / num_samples


def goodman(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    """The exact variance of a product, by Goodman (1960), for each component."""
    return d_k * (mean_q**2 * var_k + mean_k**2 * var_q + var_q * var_k)


PUBLISHED = {
    "softmax_jacobian, backward": backward,
    "softmax_jacobian, tutorials": diagflat,
    "softmax_jacobian, einsum": einsum,
    "attention_entropy, scipy": scipys_entr,
    "attention_entropy, torch": xlogy,
    "dot_product_variance, Goodman": goodman,
    "scale_for_unit_variance, GPT-2": lambda d_k, var_q=1.0, var_k=1.0: (d_k * var_q * var_k) ** -0.5,
    "dot_product_stats, Welford": welford,
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [PUBLIC_SEED, 7])
@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_published_gets_full_marks(name, seed):
    report = report_on(f"ch03_scaling/{name.partition(',')[0]}", PUBLISHED[name], seed)
    assert report.passed, report


def test_the_derivative_of_a_library_is_told_as_such():
    def softmax_jacobian(p):
        return torch.autograd.functional.jacobian(torch.exp, torch.from_numpy(p)).numpy()

    assert report_on("ch03_scaling/softmax_jacobian", softmax_jacobian).status == "forbidden"


def logarithm_without_out(weights, axis=-1):
    return -(weights * np.log(weights, where=weights > 0)).sum(axis=axis)


def logarithm_in_empty(weights, axis=-1):
    log = np.empty_like(weights)
    log[weights > 0] = np.log(weights[weights > 0])
    return -(weights * log).sum(axis=axis)


@pytest.mark.slow
@pytest.mark.parametrize("answer", [logarithm_without_out, logarithm_in_empty])
def test_a_logarithm_that_was_never_written_is_named(answer):
    report = report_on("ch03_scaling/attention_entropy", answer, shrinking=True)
    assert report.diagnosis == "nan_at_zero"
    assert "without `out`" in report.message
    assert "for each row that holds a zero" in report.failures[0].broken


def bits(weights, axis=-1):
    return -xlogy(weights, axis) / np.log(0.5)


SLIPS = {
    "bits": ("attention_entropy", bits),
    "a default of 0": ("attention_entropy", lambda weights, axis=0: scipys_entr(weights, axis)),
    "a default of None": ("attention_entropy", lambda weights, axis=None: scipys_entr(weights, axis)),
    "an axis kept": (
        "attention_entropy",
        lambda weights, axis=-1: np.expand_dims(scipys_entr(weights, axis), axis),
    ),
    "no root": ("scale_for_unit_variance", lambda d_k, var_q=1.0, var_k=1.0: (d_k * var_q * var_k) ** -1.0),
    "a root too many": (
        "dot_product_variance",
        lambda d_k, var_q, var_k, mean_q=0.0, mean_k=0.0: goodman(d_k, var_q, var_k, mean_q, mean_k) ** 0.5,
    ),
    "the sign": ("softmax_jacobian", lambda p: -einsum(p)),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "answer"), SLIPS.values(), ids=SLIPS.keys())
def test_one_slip_keeps_more_than_half_and_is_named(name, answer):
    report = report_on(f"ch03_scaling/{name}", answer)
    assert not report.passed
    assert report.diagnosis
    assert report.score > report.max_score / 2


def for_a_matrix(p):
    rows, n = p.shape
    return np.stack([diagflat(p[i]) for i in range(rows)]).reshape(rows, n, n)


def for_one_row(p):
    (n,) = p.shape
    return diagflat(p).reshape(n, n)


FIXED_AXES = {
    "unpacks_two_sizes": for_a_matrix,
    "unpacks_one_size": for_one_row,
    "einsum_of_one_row": lambda p: np.diag(p) - np.einsum("a,b->ab", p, p),
}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "answer"), FIXED_AXES.items(), ids=FIXED_AXES.keys())
def test_code_for_a_fixed_number_of_axes_is_named(kind, answer):
    assert report_on("ch03_scaling/softmax_jacobian", answer).diagnosis == kind


def test_a_variance_is_explained_by_its_components():
    report = report_on("ch03_scaling/dot_product_variance", lambda *args, **means: 0.0)
    assert "each component adds var_q * var_k" in report.failures[0].broken


@pytest.mark.slow
def test_one_key_for_all_samples_is_no_new_pair_for_each():
    def dot_product_stats(d_k, num_samples, rng):
        products = rng.standard_normal((num_samples, d_k)) @ rng.standard_normal(d_k)
        return products.mean(), products.var()

    (result,) = (
        result
        for result in report_on("ch03_scaling/dot_product_stats", dot_product_stats).criteria
        if result.says.startswith("num_samples pairs")
    )
    assert "scatter by" in result.failure.fault
