"""Variants: slips of every kind are seen, whoever writes them, and keep the points that they deserve."""

import numpy as np
import pytest
import torch
from exercise_bank import named, report_on
from test_exercises_ch09_ch10 import fading, fast_transformers, flash_attention, scanned, updated_out_and_lse


def window(seq_len, window, dtype=torch.int64):
    i = torch.arange(seq_len, dtype=dtype)
    return (i <= i[:, None]) & (i[:, None] - i < window)


def tiles(mask=None, kept=None, block_of=lambda block_size: block_size):
    """Tiled attention with a causal mask made beforehand, or with weights kept in another dtype."""

    def tiled_attention(q, k, v, block_size, causal=False):
        T, block_size = q.shape[2], block_of(block_size)
        later = mask(T, q.device) if mask else None
        position, piled = torch.arange(T, device=q.device), []
        peak = torch.full_like(q[..., :1], -torch.inf)
        total, out = torch.zeros_like(peak), torch.zeros_like(q)
        for j in range(0, T, block_size):
            block = slice(j, j + block_size)
            scores = q @ k[:, :, block].mT / q.shape[-1] ** 0.5
            if causal:
                hidden = position[block] > position[:, None] if later is None else later[:, block]
                scores = scores.masked_fill(hidden, -torch.inf)
            new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
            old, p = torch.exp(peak - new_peak), torch.exp(scores - new_peak)
            piled += [p.to(kept)] if kept else []
            total, out, peak = total * old + p.sum(-1, keepdim=True), out * old + p @ v[:, :, block], new_peak
        return out / total

    return tiled_attention


def of_numpy(T, device):
    return torch.from_numpy(np.triu(np.ones((T, T), dtype=bool), 1)).to(device)


def of_lists(T, device):
    return torch.tensor([[j > i for j in range(T)] for i in range(T)], device=device)


def of_halves(T, device):
    i = torch.arange(T, device=device, dtype=torch.float16)
    return i - i[:, None] > 0


def routed(weights=lambda w: w, experts=lambda e: e):
    def route_top_k(logits, k):
        best, chosen = logits.topk(k, dim=-1)
        return weights(torch.softmax(best, dim=-1)), experts(chosen)

    return route_top_k


def half_written(w):
    out = torch.empty_like(w)
    out[:, :2] = w[:, :2]
    return out


def first_token_unwritten(w, u, k, v):
    out = torch.empty_like(k)
    out[:, 1:] = fading(w, u, k, v)[:, 1:]
    return out


def the_last_two_tokens(u, delta, A, B, C, D):
    decay, written = (delta[..., None] * A).exp(), (delta * u)[..., None] * B[:, :, None]
    before = torch.cat([torch.zeros_like(written[:, :1]), written[:, :-1]], dim=1)
    return ((written + decay * before) * C[:, :, None]).sum(-1) + D * u


def heads_joined(q, k, v, causal=True):
    B, h, T, _ = q.shape
    joined = (x.view(B * h, 1, T, -1) for x in (q, k, v))
    return fast_transformers(*joined, causal).view(B, h, T, -1)


def back_on_the_cpu_if_all(q, k, v, causal=True):
    out = fast_transformers(q, k, v, causal)
    return out if causal else out.cpu()


def last_shard_on_the_cpu(q_shards, k_shards, v_shards, causal=False):
    *others, last = updated_out_and_lse(q_shards, k_shards, v_shards, causal)
    return [*others, last.cpu()]


KINDS = {
    "positions in int8": (
        "sliding_window_mask",
        lambda seq_len, w: window(seq_len, w, torch.int8),
        "token 128",
    ),
    "a window cut to T - 1": (
        "sliding_window_mask",
        lambda seq_len, w: window(seq_len, min(w, max(seq_len - 1, 1))),
        "with a window of 5 it sees 5",
    ),
    "a mask of numpy": ("tiled_attention", tiles(of_numpy), "your largest tensor has the shape ("),
    "a mask of lists": ("tiled_attention", tiles(of_lists), "your largest tensor has the shape ("),
    "distances in float16": (
        "tiled_attention",
        tiles(of_halves),
        "your largest tensor has the shape (",
    ),
    "weights kept in bfloat16": ("tiled_attention", tiles(kept=torch.bfloat16), "bytes are held at once"),
    "heads joined by view": ("linear_attention", heads_joined, "view size is not compatible"),
    "a result on the cpu": ("linear_attention", back_on_the_cpu_if_all, "the result is on the cpu"),
    "one shard on the cpu": ("ring_attention", last_shard_on_the_cpu, "the result is on the cpu"),
    "a first token never written": ("wkv", first_token_unwritten, "memory that was never written"),
    "one decay for all channels": (
        "wkv",
        lambda w, u, k, v: fading(w[:1].expand_as(w), u, k, v),
        "in channel 1, the weights of token 2 for tokens 0 and 1 have the ratio",
    ),
    "a bonus of 0 or more": ("wkv", lambda w, u, k, v: fading(w, u.clamp(min=0), k, v), "in channel "),
    "the rates of one channel": (
        "selective_scan",
        lambda u, delta, A, B, C, D: scanned(u, delta, A[:1].expand_as(A), B, C, D),
        "in channel 1, gives y =",
    ),
    "nothing from two steps ago": ("selective_scan", the_last_two_tokens, "2 steps later; the state"),
    "steps never 0": (
        "selective_scan",
        lambda u, delta, A, B, C, D: scanned(u, delta.clamp(min=1e-2), A, B, C, D),
        "C . (delta B) is 0",
    ),
    "weights half written": ("route_top_k", routed(half_written), "memory that was never written"),
    "numbers of experts as floats": (
        "route_top_k",
        routed(experts=lambda e: e.float()),
        "numbers of experts, 0",
    ),
    "experts on the cpu": ("route_top_k", routed(experts=lambda e: e.cpu()), "result 2 of 2 is on the cpu"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_slips_that_no_list_foresees_are_shown(kind):
    name, wrong, sentence = KINDS[kind]
    report = report_on(named(name), wrong)
    assert not report.passed
    assert sentence in str(report), report


NAMED = {
    "without D": (
        "selective_scan",
        lambda u, delta, A, B, C, D: scanned(u, delta, A, B, C, 0 * D),
        "no_D",
    ),
    "u for D u": (
        "selective_scan",
        lambda u, delta, A, B, C, D: scanned(u, delta, A, B, C, torch.ones_like(D)),
        "u_without_D",
    ),
    "rates as logarithms": (
        "selective_scan",
        lambda u, delta, A, B, C, D: scanned(u, delta, -A.exp(), B, C, D),
        "rates_from_their_logarithm",
    ),
    "softplus": (
        "selective_scan",
        lambda u, delta, A, B, C, D: scanned(u, (1 + delta.exp()).log(), A, B, C, D),
        "softplus_once_more",
    ),
    "steps in front": (
        "selective_scan",
        lambda u, delta, A, B, C, D: scanned(u, delta, A, B, C, D).swapaxes(0, 1),
        "time_in_front",
    ),
    "B for C": (
        "selective_scan",
        lambda u, delta, A, B, C, D: scanned(u, delta, A, C, B, D),
        "B_and_C_exchanged",
    ),
    "experts, weights": ("route_top_k", lambda logits, k: routed()(logits, k)[::-1], "results_exchanged"),
    "best last": (
        "route_top_k",
        lambda logits, k: tuple(x.flip(-1) for x in routed()(logits, k)),
        "best_last",
    ),
    "no bonus": ("wkv", lambda w, u, k, v: fading(w, 0 * u, k, v), "no_bonus"),
    "unscaled": (
        "tiled_attention",
        lambda q, k, v, block_size, causal=False: tiles()(q * q.shape[-1] ** 0.5, k, v, block_size, causal),
        "no_scale",
    ),
    "a default": (
        "tiled_attention",
        lambda q, k, v, block_size, causal=True: tiles()(q, k, v, block_size, causal),
        "causal_by_default",
    ),
    "one rank on": (
        "ring_attention",
        lambda q, k, v, causal=False: (out := updated_out_and_lse(q, k, v, causal))[-1:] + out[:-1],
        "outputs_moved_on",
    ),
    "a linear default": (
        "linear_attention",
        lambda q, k, v, causal=False: fast_transformers(q, k, v, causal),
        "not_causal_by_default",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("slip", NAMED)
def test_a_slip_in_other_words_is_named_and_keeps_more_than_half(slip):
    name, wrong, mistake = NAMED[slip]
    report = report_on(named(name), wrong)
    assert report.diagnosis == mistake, report
    assert report.max_score / 2 < report.score < report.max_score


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        (
            "tiled_attention",
            lambda q, k, v, block_size, causal=False: flash_attention(q, k, v, block_size),
        ),
        ("ring_attention", lambda q, k, v, causal=False: updated_out_and_lse(q, k, v)),
        ("linear_attention", lambda q, k, v, causal=True: fast_transformers(q, k, v, causal=False)),
    ],
)
def test_the_future_included_earns_less_than_half(name, wrong):
    report = report_on(named(name), wrong)
    assert 0 < report.score < report.max_score / 2
    assert "`causal` makes no difference" in report.message


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8])
def test_any_whole_numbers_may_name_the_experts(dtype):
    report = report_on("ch09_cheaper_attention/route_top_k", routed(experts=lambda e: e.to(dtype)))
    assert report.passed, report


@pytest.mark.slow
def test_blocks_of_another_size_are_right_where_they_are_not_larger():
    smaller = tiles(block_of=lambda block_size: max(1, block_size // 2))
    assert report_on("ch09_cheaper_attention/tiled_attention", smaller).passed
    larger = report_on(
        "ch09_cheaper_attention/tiled_attention", tiles(block_of=lambda block_size: 3 * block_size)
    )
    assert "your largest tensor has the shape" in str(larger)
