"""Chapter 2: what is published gets full marks, with a softmax of its own."""

import math
from importlib import import_module
from types import FunctionType, SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exercise_bank import PUBLIC_SEED, cases, report_on


def tensors(*arrays):
    return [torch.from_numpy(np.ascontiguousarray(a)) for a in arrays]


def own_softmax(x, dim=-1, dtype=None):
    e = torch.exp(x - x.amax(dim, keepdim=True))
    return e / e.sum(dim, keepdim=True)


def of_transformers(family):
    """The attention of a family in transformers, with a softmax of one's own in the place of torch's."""

    def scaled_dot_product_attention(query, key, value, mask=None):
        attend = import_module(f"transformers.models.{family}.modeling_{family}").eager_attention_forward
        own = SimpleNamespace(functional=SimpleNamespace(softmax=own_softmax, dropout=F.dropout))
        attend = FunctionType(attend.__code__, {**attend.__globals__, "nn": own}, argdefs=attend.__defaults__)
        return by_heads(attend, query, key, value, mask)

    return scaled_dot_product_attention


def by_heads(attend, query, key, value, mask):
    """An attention for (B, h, T, d) asked of any leading axes; zeros where nothing may be attended to."""
    q, k, v = (x.reshape(1, -1, *x.shape[-2:]) for x in tensors(query, key, value))
    shape = (*query.shape[:-1], key.shape[-2])
    allowed = np.broadcast_to(True if mask is None else mask, shape)
    added = torch.from_numpy(np.where(allowed, 0.0, -1e30)).reshape(1, -1, *shape[-2:]).to(q.dtype)
    module = SimpleNamespace(num_key_value_groups=1, training=False, scale_attn_weights=True)
    output, weights = attend(module, q, k, v, added, scaling=q.shape[-1] ** -0.5, dropout=0.0)
    weights = weights.reshape(shape).numpy() * allowed
    return output.transpose(1, 2).reshape(*shape[:-1], -1).numpy() * allowed.any(-1)[..., None], weights


def annotated(query, key, value, mask=None):
    """As The Annotated Transformer has it, with numpy's names."""
    d_k = query.shape[-1]
    scores = np.matmul(query, key.swapaxes(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = np.where(mask == 0, -1e9, scores)
    p_attn = np.exp(scores - scores.max(-1, keepdims=True))
    p_attn = p_attn / p_attn.sum(-1, keepdims=True)
    if mask is not None:
        p_attn = p_attn * np.broadcast_to(mask, p_attn.shape).any(-1, keepdims=True)
    return np.matmul(p_attn, value), p_attn


def x_transformers(query, key, value, mask=None):
    """The `Attend` of x-transformers, with a softmax of one's own."""
    attend = import_module("x_transformers.attend").Attend()
    attend.attn_fn = own_softmax
    shape = (*query.shape[:-1], key.shape[-2])
    q, k, v = (x.reshape(1, -1, *x.shape[-2:]) for x in tensors(query, key, value))
    allowed = np.array(np.broadcast_to(True if mask is None else mask, shape))
    given = torch.from_numpy(allowed).reshape(1, -1, *shape[-2:])
    opened = given | ~given.any(-1, keepdim=True)
    output, kept = attend(q, k, v, mask=opened)
    weights = kept.post_softmax_attn.reshape(shape).numpy() * allowed
    return output.reshape(*shape[:-1], -1).numpy() * allowed.any(-1)[..., None], weights


def cs231n(x, axis=-1):
    """As courses have it: the probabilities from shifted scores."""
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return np.exp(shifted) / np.sum(np.exp(shifted), axis=axis, keepdims=True)


def by_scipys_logsumexp(x, axis=-1):
    from scipy.special import logsumexp

    return np.exp(x - logsumexp(x, axis=axis, keepdims=True))


def conv1d(x, W_q, W_k, W_v):
    """GPT-2's `Conv1D`, whose one weight makes q, k and v."""
    x, weight = tensors(x, np.concatenate([W_q, W_k, W_v], axis=1))
    layer = import_module("transformers.pytorch_utils").Conv1D(weight.shape[1], weight.shape[0])
    parameters = {"weight": weight, "bias": torch.zeros_like(weight[0])}
    joined = torch.func.functional_call(layer, parameters, (x,))
    q, k, v = joined.split([W.shape[1] for W in (W_q, W_k, W_v)], dim=-1)
    return q.numpy(), k.numpy(), v.numpy()


def baddbmm(query, key):
    """As GPT-2 has it with reordered, upcast attention."""
    q, k = (x.reshape(-1, *x.shape[-2:]) for x in tensors(query, key))
    room = torch.empty(len(q), q.shape[1], k.shape[1], dtype=q.dtype)
    scores = torch.baddbmm(room, q, k.transpose(-1, -2), beta=0, alpha=1.0 / q.shape[-1] ** 0.5)
    return scores.reshape(*query.shape[:-1], -1).numpy()


def hopfield(query, keys, values, temperature):
    """A modern Hopfield network's update: beta = 1 / temperature."""
    if temperature <= 0:
        raise ValueError("beta must be positive")
    similarity = keys @ query / temperature
    p = np.exp(similarity - similarity.max())
    return values.T @ (p / p.sum())


PUBLISHED = {
    "softmax, CS231n": cs231n,
    "softmax, scipy": by_scipys_logsumexp,
    "project_qkv, GPT-2": conv1d,
    "attention_scores, GPT-2": baddbmm,
    "scaled_dot_product_attention, BERT": of_transformers("bert"),
    "scaled_dot_product_attention, GPT-2": of_transformers("gpt2"),
    "scaled_dot_product_attention, Llama": of_transformers("llama"),
    "scaled_dot_product_attention, x-transformers": x_transformers,
    "scaled_dot_product_attention, The Annotated Transformer": annotated,
    "soft_lookup, Hopfield": hopfield,
}


def imported_first():
    """Before anything is watched, which takes time."""
    for family in ("bert", "gpt2", "llama"):
        import_module(f"transformers.models.{family}.modeling_{family}")
    import_module("x_transformers.attend")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [PUBLIC_SEED, 7])
@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_published_gets_full_marks(name, seed):
    imported_first()
    report = report_on(f"ch02_qkv/{name.partition(',')[0]}", PUBLISHED[name], seed)
    assert report.passed, report


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_the_softmax_of_a_library_is_told_as_such(family):
    imported_first()

    def scaled_dot_product_attention(query, key, value, mask=None):
        attend = import_module(f"transformers.models.{family}.modeling_{family}").eager_attention_forward
        return by_heads(attend, query, key, value, mask)

    report = report_on("ch02_qkv/scaled_dot_product_attention", scaled_dot_product_attention)
    assert report.status == "forbidden"
    assert "softmax" in report.message


def axis_by_rank(x, axis=-1):
    """Two faults: one maximum for the whole array, and an axis chosen by the number of axes."""
    e = np.exp(x - x.max())
    return e / e.sum(axis=0) if x.ndim == 1 else e / e.sum(axis=1, keepdims=True)


@pytest.mark.slow
def test_two_faults_make_no_third():
    report = report_on("softmax", axis_by_rank, shrinking=True)
    assert not report.passed
    assert report.diagnosis is None
    assert "single row" not in str(report)
    assert "sum to 1 along axis" in report.failures[0].broken
    assert "comes out right by itself" in str(report)


def filled_after_softmax(fill):
    def scaled_dot_product_attention(query, key, value, mask=None):
        weights = own_weights(query, key)
        if mask is not None:
            weights = np.where(mask, weights, fill)
        return weights @ value, weights

    return scaled_dot_product_attention


def own_weights(query, key, mask=True):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def multiplied_after_softmax(query, key, value, mask=None):
    weights = own_weights(query, key)
    kept = weights if mask is None else weights * mask
    return kept @ value, weights


AFTER_SOFTMAX = {
    "minus infinity": filled_after_softmax(-np.inf),
    "NaN": filled_after_softmax(np.nan),
    "-1e9": filled_after_softmax(-1e9),
    "-1": filled_after_softmax(-1.0),
    "0": filled_after_softmax(0.0),
    "half": filled_after_softmax(0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("answer", AFTER_SOFTMAX.values(), ids=AFTER_SOFTMAX.keys())
def test_a_mask_after_softmax_is_seen_whatever_it_writes(answer):
    report = report_on("scaled_dot_product_attention", answer, shrinking=True)
    assert 0 < report.score < 3
    assert "the mask comes after softmax" in report.failures[0].broken
    assert report.diagnosis in (None, "infinity_after_softmax", "mask_after_softmax")


@pytest.mark.slow
def test_weights_without_a_mask_beside_a_right_output_are_no_mask_after_softmax():
    def scaled_dot_product_attention(query, key, value, mask=None):
        masked = own_weights(query, key, True if mask is None else mask)
        masked = masked if mask is None else masked * mask
        return masked @ value, own_weights(query, key)

    report = report_on("scaled_dot_product_attention", scaled_dot_product_attention)
    assert "after softmax" not in str(report)
    assert "the weights that you return are not the weights that made it" in str(report)


@pytest.mark.slow
def test_returned_weights_alone_do_not_hide_a_mask_after_softmax():
    report = report_on("scaled_dot_product_attention", multiplied_after_softmax)
    assert "your mask changes nothing" in report.failures[0].broken


def divided_without_out(query, key, value, mask=None):
    mask = True if mask is None else mask
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True, where=mask, initial=-1e30)) * mask
    total = e.sum(axis=-1, keepdims=True)
    weights = np.divide(e, total, where=np.broadcast_to(total > 0, e.shape))
    return weights @ value, weights


def weights_in_empty(query, key, value, mask=None):
    right = own_weights(query, key, True if mask is None else mask)
    allowed = np.broadcast_to(True if mask is None else mask, right.shape)
    weights = np.empty(right.shape)
    weights[allowed] = right[allowed]
    return np.where(allowed, right, 0) @ value, weights


def accumulated_in_empty(x, W_q, W_k, W_v):
    results = []
    for W in (W_q, W_k, W_v):
        result = np.empty((*x.shape[:-1], W.shape[1]))
        for i in range(x.shape[-1]):
            result += x[..., i, None] * W[i]
        results.append(result)
    return results


UNWRITTEN = {
    "a division without out": ("scaled_dot_product_attention", divided_without_out, "without `out`"),
    "weights in np.empty": ("scaled_dot_product_attention", weights_in_empty, "np.empty"),
    "a sum in np.empty": ("project_qkv", accumulated_in_empty, "memory that was never written"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "answer", "words"), UNWRITTEN.values(), ids=UNWRITTEN.keys())
def test_memory_that_was_never_written_is_named(name, answer, words):
    report = report_on(name, answer)
    assert not report.passed
    assert words in str(report)


def three_sizes(query, key, value, mask=None):
    B, T_k, _ = key.shape
    weights = own_weights(query, key, True if mask is None else mask)
    allowed = np.broadcast_to(True if mask is None else mask, (B, query.shape[1], T_k))
    return (weights * allowed) @ value, weights * allowed


FIXED_AXES = {
    "unpacks_three_sizes": ("scaled_dot_product_attention", three_sizes),
    "transposed_as_four_axes": (
        "attention_scores",
        lambda query, key: np.matmul(query / query.shape[-1] ** 0.5, key.transpose(0, 1, 3, 2)),
    ),
    "transposed_as_three_axes": (
        "attention_scores",
        lambda query, key: np.matmul(query, key.transpose(0, 2, 1)) * query.shape[-1] ** -0.5,
    ),
    "einsum_of_three_axes": (
        "attention_scores",
        lambda query, key: np.einsum("nid,njd->nij", query, key) / query.shape[-1] ** 0.5,
    ),
    "einsum_without_batch": (
        "project_qkv",
        lambda x, W_q, W_k, W_v: [np.einsum("ij,jk->ik", x, W) for W in (W_q, W_k, W_v)],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name", "answer"), [(k, *v) for k, v in FIXED_AXES.items()])
def test_code_for_a_fixed_number_of_axes_is_named(kind, name, answer):
    assert report_on(name, answer).diagnosis == kind


def test_every_form_of_a_mask_is_drawn():
    """Right-aligned: which axes of (B, h, T_q, T_k) a mask has, and which of them are of size 1."""
    drawn = set()
    for _, case in cases("ch02_qkv/scaled_dot_product_attention"):
        mask = (*case.args, case.kwargs.get("mask"))[3]
        if mask is not None:
            drawn.add(tuple(n > 1 for n in mask.shape))
    T, F_ = True, False
    for form in [(T,), (F_, T), (T, F_), (T, T), (T, F_, T), (T, T, T), (T, T, F_, T), (T, F_, T, T)]:
        assert form in drawn, form
    assert (T, F_, T, T, T) in drawn, "one of several leading axes"


def empty_rows_squeezed(query, key, value, mask=None):
    """Right but for masks with fewer axes than the scores."""
    weights = own_weights(query, key, True if mask is None else mask)
    if mask is not None:
        weights[~mask.any(axis=-1)] = 0
    return weights @ value, weights


@pytest.mark.slow
def test_a_mask_with_fewer_axes_shows_an_index():
    report = report_on("scaled_dot_product_attention", empty_rows_squeezed)
    assert not report.passed


def of_whole_numbers(x, axis=-1):
    """Right for fractions; the room for the result takes the dtype of the scores."""
    result = np.empty_like(x)
    np.copyto(result, cs231n(x, axis), casting="unsafe")
    return result


def test_whole_scores_need_room_for_fractions():
    report = report_on("softmax", of_whole_numbers)
    assert report.diagnosis == "room_of_whole_numbers"
    assert report.score > 1.5


def in_float32(x, W_q, W_k, W_v):
    return tuple((x @ W).astype(np.float32) for W in (W_q, W_k, W_v))


@pytest.mark.slow
def test_float32_inside_costs_its_own_points_alone():
    report = report_on("project_qkv", in_float32)
    assert report.score == 1.75
    assert "float32 where float64 came in" in str(report)


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [(1e-3, np.inf), (0, 1e3)])
def test_a_floor_or_a_ceiling_for_the_temperature_is_seen(bounds):
    def soft_lookup(query, keys, values, temperature):
        bounded = np.clip(temperature, *bounds) if temperature > 0 else temperature
        return hopfield(query, keys, values, bounded)

    report = report_on("soft_lookup", soft_lookup)
    assert report.score == 2.5
    assert [c.failure is None for c in report.criteria] == [True, False, True, True, True]
