"""Chapter 2: what is published gets full marks, with a softmax of its own."""

import math
from importlib import import_module
from types import FunctionType, SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exercise_bank import PUBLIC_SEED, report_on


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


@pytest.mark.parametrize("seed", [PUBLIC_SEED, 7])
@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_published_gets_full_marks(name, seed):
    imported_first()
    report = report_on(f"ch02_qkv/{name.partition(',')[0]}", PUBLISHED[name], seed)
    assert report.passed, report


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_the_softmax_of_a_library_is_told_as_such(family):
    imported_first()

    def scaled_dot_product_attention(query, key, value, mask=None):
        attend = import_module(f"transformers.models.{family}.modeling_{family}").eager_attention_forward
        return by_heads(attend, query, key, value, mask)

    report = report_on("ch02_qkv/scaled_dot_product_attention", scaled_dot_product_attention)
    assert report.status == "forbidden"
    assert "softmax" in report.message
