"""The faults that people report again and again about Transformers, one test each.

Other files test the same code more widely; here each fault has a place where its name is found.
"""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from tfcore.attention import BACKENDS, attention
from tfcore.config import AttentionConfig, BlockConfig, EncoderDecoderConfig, ModelConfig, PositionConfig
from tfcore.generate import speculative_accept
from tfcore.layers import MultiHeadAttention
from tfcore.losses import summed_cross_entropy
from tfcore.masks import causal_mask, position_mask
from tfcore.models import Decoder, EncoderDecoder
from tfcore.positions import alibi_slopes, apply_rope, interleaved_to_half
from tfcore.routing import route_top_k
from tfcore.testing import raise_weights
from tfcore.train import TrainConfig, decay_groups, train

CPU_BACKENDS = ["explicit", "tiled", "fused"]
VOCAB, D_MODEL, D_FF = 29, 24, 40


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def decoder(kind: str = "rope", seed: int = 0, tied: bool = True, **attention: int) -> Decoder:
    block = BlockConfig(AttentionConfig(D_MODEL, num_heads=6, num_kv_heads=2, **attention), D_FF)
    model = Decoder(ModelConfig(VOCAB, 2, block, PositionConfig(kind, max_len=64), tied=tied))
    return raise_weights(model, seed=seed).double().eval()


def text(batch: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(VOCAB, (batch, length), generator=torch.Generator().manual_seed(seed))


def test_rope_layouts_differ_by_a_permutation_of_the_projections():
    x, weight_q, weight_k = draw(1, 5, 12), draw(8, 12, seed=1), draw(8, 12, seed=2)
    positions = torch.arange(5)

    def scores(layout, change):
        q, k = (apply_rope(x @ change(w).mT, positions, layout=layout) for w in (weight_q, weight_k))
        return q @ k.mT

    interleaved = scores("interleaved", lambda w: w)
    half = scores("half", lambda w: interleaved_to_half(w, d_head=8))
    torch.testing.assert_close(half, interleaved)
    assert (scores("half", lambda w: w) - interleaved).abs().max() > 0.1


@pytest.mark.parametrize("position", [255, 257, 5_000, 100_001])
def test_rope_keeps_its_phase_in_bfloat16_beyond_position_256(position):
    x = draw(1, 64, dtype=torch.bfloat16)
    exact = apply_rope(x.double(), torch.tensor([position]))
    assert (apply_rope(x, torch.tensor([position])).double() - exact).abs().max() < 0.02


def test_rope_keeps_its_phase_in_a_model_that_moves_to_bfloat16():
    model = decoder()
    wide = model.stack.positions.relate(torch.tensor([5_000]), torch.tensor([5_000])).rotation
    model.to(torch.bfloat16)
    half = model.stack.positions.relate(
        torch.tensor([5_000]), torch.tensor([5_000]), dtype=torch.bfloat16
    ).rotation
    torch.testing.assert_close(half.cos, wide.cos)


def test_true_in_a_mask_means_may_attend_as_in_sdpa_and_not_as_in_multihead_attention():
    q, k, v = draw(1, 2, 3, 4), draw(1, 2, 5, 4, seed=1), draw(1, 2, 5, 6, seed=2)
    mask = torch.tensor([True, False, True, True, False])
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.expand(3, 5))
    for backend in CPU_BACKENDS:
        torch.testing.assert_close(attention(q, k, v, mask=mask, backend=backend), expected)


@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_a_fully_masked_row_gives_zeros_in_output_and_gradient(backend):
    q, k, v = (x.requires_grad_() for x in (draw(1, 1, 3, 4), draw(1, 1, 5, 4), draw(1, 1, 5, 4)))
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[1] = False
    output = attention(q, k, v, mask=mask, backend=backend)
    output.sum().backward()
    assert (output[0, 0, 1] == 0).all()
    assert (q.grad[0, 0, 1] == 0).all()
    assert all(x.grad.isfinite().all() for x in (q, k, v))


@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_nan_in_padded_keys_does_not_leak(backend):
    q, k, v = draw(1, 2, 3, 4), draw(1, 2, 5, 4, seed=1), draw(1, 2, 5, 6, seed=2)
    expected = attention(q, k[:, :, :3], v[:, :, :3], backend=backend)
    k[:, :, 3:], v[:, :, 3:] = math.nan, math.inf
    leaves = [x.requires_grad_() for x in (q, k, v)]
    output = attention(*leaves, mask=torch.arange(5) < 3, backend=backend)
    torch.testing.assert_close(output, expected)
    output.sum().backward()
    assert all(x.grad.isfinite().all() for x in leaves)


@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_two_masks_on_one_place_do_not_overflow(backend):
    """Additive masks of finfo.min add up to -inf and make NaN; boolean ones are and-ed."""
    q = draw(1, 1, 4, 8, dtype=torch.float32)
    padding = torch.tensor([False, False, True, True])
    bias = torch.full((4, 4), torch.finfo(torch.float32).min).triu(1)
    output = attention(q, q, q, mask=padding, causal=True, bias=bias, backend=backend)
    assert output.isfinite().all()
    torch.testing.assert_close(output[0, 0, 2], q[0, 0, 2])


@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_a_finite_bias_of_a_wider_type_stays_finite(backend):
    q = draw(1, 1, 4, 8, dtype=torch.float32)
    bias = torch.full((4, 4), torch.finfo(torch.float64).min, dtype=torch.float64)
    output = attention(q, q, q, bias=bias, backend=backend)
    torch.testing.assert_close(output[0, 0], q[0, 0].mean(0).expand(4, -1))


@pytest.mark.parametrize("backend", CPU_BACKENDS)
@pytest.mark.parametrize(("T_q", "T_k"), [(3, 7), (1, 5), (6, 2)])
def test_causal_aligns_the_last_query_with_the_last_key(backend, T_q, T_k):
    q, k, v = draw(1, 1, T_q, 4), draw(1, 1, T_k, 4, seed=1), draw(1, 1, T_k, 4, seed=2)
    expected = attention(q, k, v, mask=causal_mask(T_q, T_k), backend="explicit")
    torch.testing.assert_close(attention(q, k, v, causal=True, backend=backend), expected)


@pytest.mark.parametrize("kind", ["learned", "sinusoidal", "shaw", "t5", "rope", "alibi"])
@pytest.mark.parametrize("chunks", [[9], [1] * 9, [4, 1, 4], [1, 8]])
def test_a_cache_offsets_positions_and_masks_its_prefill(kind, chunks):
    model, tokens = decoder(kind), text(2, 9)
    cache = model.new_cache(batch=2, max_len=9)
    with torch.no_grad():
        pieces = [model(piece, cache) for piece in tokens.split(chunks, dim=1)]
        torch.testing.assert_close(torch.cat(pieces, dim=1), model(tokens))


def test_a_full_cache_says_so_and_stays_as_it_was():
    model, tokens = decoder(), text(1, 6)
    cache = model.new_cache(batch=1, max_len=5)
    with torch.no_grad():
        model(tokens[:, :4], cache)
        before = [layer.keys.clone() for layer in cache.layers]
        with pytest.raises(ValueError, match=r"at most 5 tokens.* got 6"):
            model(tokens[:, 4:], cache)
        assert cache.length == 4
        assert all(torch.equal(a, layer.keys) for a, layer in zip(before, cache.layers, strict=True))
        assert model(tokens[:, 4:5], cache).shape == (1, 1, VOCAB)


@pytest.mark.parametrize("kind", ["learned", "sinusoidal", "shaw", "t5", "rope", "alibi"])
def test_rows_padded_on_the_left_come_out_as_alone(kind):
    model, short, long = decoder(kind), text(1, 5), text(1, 8, seed=1)
    padded = torch.cat([torch.cat([torch.zeros(1, 3, dtype=torch.long), short], dim=1), long])
    padding = torch.tensor([[False] * 3 + [True] * 5, [True] * 8])
    with torch.no_grad():
        together = model(padded, padding=padding)
        torch.testing.assert_close(together[:1, 3:], model(short))
        torch.testing.assert_close(together[1:], model(long))


def test_a_window_counts_the_token_itself():
    assert position_mask(torch.tensor([4]), torch.arange(6), window=2).tolist() == [
        [False, False, False, True, True, False]
    ]


@pytest.mark.parametrize(
    ("heads", "exponents"),
    [(8, range(1, 9)), (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]), (3, [4, 8, 2])],
)
def test_alibi_slopes_for_head_counts_that_are_no_power_of_two(heads, exponents):
    torch.testing.assert_close(alibi_slopes(heads), torch.tensor([2.0**-e for e in exponents]))


def test_t5_keeps_its_bias_in_cached_decode():
    block = BlockConfig(AttentionConfig(D_MODEL, num_heads=3, scale=1.0, bias=False), D_FF, norm="rms")
    config = ModelConfig(VOCAB, 2, block, PositionConfig("t5", num_buckets=8, max_distance=6))
    model = raise_weights(EncoderDecoder(EncoderDecoderConfig(config, config))).double().eval()
    source, target = text(2, 5), text(2, 9, seed=1)
    with torch.no_grad():
        memory, cache = model.memory(model.encode(source)), model.new_cache(batch=2, max_len=9)
        steps = [model.decode(token, memory, cache=cache) for token in target.split(1, dim=1)]
        torch.testing.assert_close(torch.cat(steps, dim=1), model(source, target))


def test_accumulation_over_ragged_batches_is_one_mean():
    inputs, classes = draw(7, 4), torch.tensor([0, 1, 2, 0, 1, 2, 1])
    ragged = [(inputs[:5], classes[:5]), (inputs[5:], classes[5:])]
    weights = []
    for batches in (ragged, [(inputs, classes)]):
        model = torch.nn.Linear(4, 3).double()
        torch.nn.init.constant_(model.weight, 0.1)
        torch.nn.init.zeros_(model.bias)
        config = TrainConfig(steps=1, peak_lr=0.1, accumulate=len(batches), clip_norm=0.01)
        train(
            model,
            lambda i, batches=batches: batches[i],
            config,
            lambda model, batch: summed_cross_entropy(model(batch[0]), batch[1]),
            progress=False,
        )
        weights.append(model.weight.detach().clone())
    torch.testing.assert_close(*weights, rtol=0, atol=1e-12)


def test_a_tied_head_is_one_parameter_and_decays_once():
    model = decoder()
    assert model.head.linear.weight is model.stack.embedding.weight
    decayed, others = decay_groups(model, 0.1)
    everything = [*decayed["params"], *others["params"]]
    assert sum(p is model.stack.embedding.weight for p in everything) == 1
    assert len(everything) == len(list(model.parameters()))
    assert sum(p.numel() for p in decoder(tied=False).parameters()) == VOCAB * D_MODEL + sum(
        p.numel() for p in everything
    )


def test_the_drafts_last_token_is_verified_too():
    p = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.3, 0.3, 0.4]])
    q = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    accepted, rest = speculative_accept(p, q, torch.tensor([1, 0]), torch.tensor([0.9, 0.0]))
    assert accepted == 1
    torch.testing.assert_close(rest, torch.tensor([0.0, 0.5, 0.5]))


def test_the_routers_softmax_is_over_the_chosen():
    logits = draw(5, 7)
    weights, experts = route_top_k(logits, k=3)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(5, dtype=torch.float64))
    torch.testing.assert_close(weights, logits.gather(1, experts).softmax(dim=1))


def test_scores_are_scaled_by_the_width_of_a_head():
    layer = raise_weights(MultiHeadAttention(AttentionConfig(D_MODEL, num_heads=3, d_head=5))).double()
    assert layer.scale == 5**-0.5
    q, k, v = draw(1, 2, 3, 4), draw(1, 2, 5, 4, seed=1), draw(1, 2, 5, 9, seed=2)
    expected = (q @ k.mT / 2).softmax(dim=-1) @ v  # the root of d_k = 4, not of d_v = 9 or d_model = 8
    for backend in CPU_BACKENDS:
        torch.testing.assert_close(attention(q, k, v, backend=backend), expected)


def test_seeded_draws_come_from_a_generator_on_the_cpu_and_not_from_the_global_one():
    """Numbers of a seed differ between devices and versions of torch: nothing is compared with constants."""
    torch.manual_seed(1)
    one = raise_weights(torch.nn.Linear(3, 4), seed=5).weight.clone()
    torch.manual_seed(2)
    other = raise_weights(torch.nn.Linear(3, 4), seed=5).weight
    assert torch.equal(one, other)


def test_every_backend_is_covered_here():
    assert set(CPU_BACKENDS) | {"triton"} == set(BACKENDS)
