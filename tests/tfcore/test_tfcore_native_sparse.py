"""Native sparse attention against loops, at its limits, and what it must not see."""

from __future__ import annotations

import dataclasses
import re

import pytest
import torch
from native_sparse_oracle import block_score, native_sparse_oracle, paper_score

from tfcore.config import AttentionConfig, NativeSparseConfig
from tfcore.layers import MultiHeadAttention, NativeSparseAttention
from tfcore.layers.native_sparse import attend_to_blocks, compressed_mask, score_blocks, select_blocks
from tfcore.positions import Order
from tfcore.positions.rotary import Rotation, inverse_frequencies
from tfcore.testing import OperationCounter, find_input_leaks, raise_weights

B, T, D_MODEL, H, G, D_HEAD, N = 2, 141, 22, 15, 3, 10, 9
CONFIG = NativeSparseConfig(D_MODEL, H, G, D_HEAD, 12, 4, select_block=16, num_selected=6, window=11)
UNEVEN = dataclasses.replace(CONFIG, compress_block=13, compress_stride=5, select_block=8, num_first=2)
SEVEN_APART = dataclasses.replace(CONFIG, compress_block=21, compress_stride=7, num_local=1, num_first=0)
BRANCHES = ("compressed", "selected", "window")


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(config=CONFIG):
    torch.manual_seed(0)  # of the biases that raised weights are added to
    return raise_weights(NativeSparseAttention(config)).double()


def open_only(layer, *names):
    """Open the gates of these branches wide and close the others."""
    with torch.no_grad():
        layer.W_gate.weight.zero_()
        for rows, name in zip(layer.W_gate.bias.view(3, -1), BRANCHES, strict=True):
            rows.fill_(torch.inf if name in names else -torch.inf)
    return layer


def plain(layer, branch, window=None):
    """Full attention with the queries, keys and values of one branch."""
    c = layer.config
    config = AttentionConfig(c.d_model, c.num_heads, c.num_kv_heads, c.d_head, bias=False, window=window)
    full = MultiHeadAttention(config).double()
    W_kv = layer.W_kv.weight.unflatten(0, (3, -1))[BRANCHES.index(branch)]
    full.load_state_dict(
        {"W_qkv.weight": torch.cat([layer.W_q.weight, W_kv]), "W_o.weight": layer.W_o.weight}
    )
    return full


def turn(positions):
    return Order(rotation=Rotation(positions, inverse_frequencies(D_HEAD), dtype=torch.float64))


@pytest.mark.parametrize(
    ("config", "score"),
    [(CONFIG, paper_score), (CONFIG, block_score), (UNEVEN, block_score), (SEVEN_APART, block_score)],
)
def test_it_is_the_papers_query_by_query(config, score):
    layer, x = make(config), draw(B, T, D_MODEL)
    output, chosen = layer(x), layer.selected_blocks(x)
    for b in range(B):
        wanted, blocks = native_sparse_oracle(layer, x[b].numpy(), score)
        assert torch.equal(chosen[b], torch.from_numpy(blocks))
        torch.testing.assert_close(output[b], torch.from_numpy(wanted), atol=1e-10, rtol=0)
    assert output.abs().max() > 1


def test_no_query_sees_a_later_token():
    layer, x = make(), draw(T, D_MODEL)
    assert find_input_leaks(lambda x: layer(x.double()), x[:50].float()) == set()
    x = x[None].requires_grad_()
    for t in (0, 10, 11, 12, 63, 64, 100):
        (gradient,) = torch.autograd.grad(layer(x)[0, t].square().sum(), x)
        assert (gradient[0, t + 1 :] == 0).all()
        assert gradient[0, t].abs().max() > 1e-3
    later = x.detach().clone()
    later[:, 70:] = draw(T - 70, D_MODEL, seed=1)
    assert torch.equal(layer.selected_blocks(x)[..., :70, :], layer.selected_blocks(later)[..., :70, :])


@pytest.mark.parametrize("length", [1, 5, 11, 12, 13, 40])
def test_a_text_begins_like_a_longer_one(length):
    """Also where no block of 12 tokens is whole yet."""
    layer, x = make(), draw(B, T, D_MODEL)
    torch.testing.assert_close(layer(x[:, :length]), layer(x)[:, :length], atol=1e-12, rtol=0)


def test_the_compressed_branch_is_silent_until_a_block_is_whole():
    layer, x = open_only(make(), "compressed"), draw(B, T, D_MODEL)
    output = layer(x)
    assert (output[:, :11] == 0).all()
    assert (output[:, 11:].abs().amax(-1) > 1e-3).all()


def test_with_all_blocks_selected_it_is_causal_attention():
    every = dataclasses.replace(CONFIG, num_selected=N)
    layer, x = open_only(make(every), "selected"), draw(B, T, D_MODEL)
    torch.testing.assert_close(layer(x), plain(layer, "selected")(x, causal=True), atol=1e-12, rtol=0)
    order = turn(torch.arange(T))
    torch.testing.assert_close(
        layer(x, order), plain(layer, "selected")(x, causal=True, order=order), atol=1e-12, rtol=0
    )
    fewer = open_only(make(), "selected")
    assert (fewer(x) - layer(x)).abs().max() > 0.1


def test_the_window_alone_is_sliding_window_attention():
    layer, x, order = open_only(make(), "window"), draw(B, T, D_MODEL), turn(torch.arange(T))
    window = plain(layer, "window", window=CONFIG.window)
    torch.testing.assert_close(layer(x), window(x, causal=True), atol=1e-12, rtol=0)
    torch.testing.assert_close(layer(x, order), window(x, causal=True, order=order), atol=1e-12, rtol=0)


def test_blocks_of_one_token_compressed_by_nothing_are_causal_attention():
    layer = open_only(make(dataclasses.replace(CONFIG, compress_block=1, compress_stride=1)), "compressed")
    for compress in (layer.compress_k, layer.compress_v):
        compress.places.data.zero_()
        compress.mlp = torch.nn.Identity()
    x = draw(B, T, D_MODEL)
    torch.testing.assert_close(layer(x), plain(layer, "compressed")(x, causal=True), atol=1e-12, rtol=0)


def test_the_output_is_the_sum_of_the_branches():
    layer, x = make(), draw(B, T, D_MODEL)
    alone = sum(open_only(layer, name)(x) for name in BRANCHES)
    torch.testing.assert_close(open_only(layer, *BRANCHES)(x), alone, atol=1e-12, rtol=0)
    torch.nn.init.zeros_(layer.W_gate.bias)  # a sigmoid of 0 is a half
    torch.testing.assert_close(layer(x), alone / 2, atol=1e-12, rtol=0)


def swapped(layer, one, other):
    """The same layer with two query heads in each other's places."""
    order = list(range(H))
    order[one], order[other] = order[other], order[one]
    with torch.no_grad():
        W_q, W_o = layer.W_q.weight.unflatten(0, (H, -1)), layer.W_o.weight.unflatten(1, (H, -1))
        W_q.copy_(W_q[order].clone())
        W_o.copy_(W_o[:, order].clone())
        for x in (layer.W_gate.weight.unflatten(0, (3, H)), layer.W_gate.bias.unflatten(0, (3, H))):
            x.copy_(x[:, order].clone())
    return layer


def test_the_heads_of_a_group_choose_together():
    x = draw(B, T, D_MODEL)
    chosen, output = make().selected_blocks(x), make()(x)
    within, across = swapped(make(), 5, 9), swapped(make(), 4, 5)
    assert torch.equal(within.selected_blocks(x), chosen)
    torch.testing.assert_close(within(x), output, atol=1e-12, rtol=0)
    assert not torch.equal(across.selected_blocks(x), chosen)
    assert not torch.equal(chosen[:, 0], chosen[:, 1])


def test_a_rotation_depends_on_distance_and_not_on_place():
    layer, x, place = make(), draw(B, T, D_MODEL), torch.arange(T)
    torch.testing.assert_close(layer(x, turn(place)), layer(x, turn(place + 40)), atol=1e-10, rtol=0)
    assert (layer(x, turn(place)) - layer(x, turn(2 * place))).abs().max() > 0.1
    compressed = open_only(layer, "compressed")
    assert torch.equal(compressed(x, turn(place)), compressed(x))


def test_every_part_learns_and_the_choice_has_no_gradient():
    layer, x = make(), draw(B, T, D_MODEL)
    layer(x).square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad.abs().max() > 0.01, name
    open_only(layer, "selected").zero_grad()
    layer(x).square().sum().backward()
    assert layer.compress_k.places.grad.abs().max() == 0


def test_fixed_blocks_the_best_of_the_rest_and_none_of_the_future():
    scores = draw(B, G, T, N).softmax(-1)
    chosen, own = select_blocks(scores, CONFIG), torch.arange(T) // 16
    assert torch.equal(chosen.sum(-1), (own + 1).clamp(max=6).expand(B, G, T))
    for t in range(T):
        assert not chosen[:, :, t, own[t] + 1 :].any()
        assert chosen[:, :, t, [0, max(0, own[t] - 1), own[t]]].all()
    last, rest = chosen[:, :, -1, 1:7], scores[:, :, -1, 1:7]
    worst, best_left = rest.masked_fill(~last, 2).amin(-1), rest.masked_fill(last, -1).amax(-1)
    assert (worst > best_left).all()


@pytest.mark.parametrize(("block", "stride", "size"), [(12, 4, 16), (32, 16, 64), (6, 6, 6), (4, 2, 4)])
def test_tokens_in_common_are_the_double_sum_of_the_paper(block, stride, size):
    config = dataclasses.replace(CONFIG, compress_block=block, compress_stride=stride, select_block=size)
    weights = draw(50).softmax(-1)
    ours = score_blocks(weights[None], config, 12)[0] / stride
    wanted = [paper_score(weights.numpy(), j, block, stride, size) for j in range(12)]
    torch.testing.assert_close(ours, torch.tensor(wanted, dtype=torch.float64))


def test_the_keys_that_are_read_are_counted():
    layer, x = make(), draw(B, 144, D_MODEL)
    compressed = compressed_mask(144, 12, 4)[-1].sum()
    selected = 16 * layer.selected_blocks(x)[0, 0, -1].sum()
    assert CONFIG.keys_read(144) == compressed + selected + 11
    assert CONFIG.keys_read(5) == 5 + 5


def test_selected_blocks_cost_as_much_as_they_hold():
    def products(length):
        q, kv = draw(1, H, length, D_HEAD), draw(2, 1, G, length, D_HEAD)
        chosen = select_blocks(draw(1, G, length, -(-length // 16)), CONFIG)
        with OperationCounter() as counter:
            attend_to_blocks(q, *kv, chosen, 16, 6)
        return counter.products

    assert products(320) == 2 * products(160) == 320 * H * 6 * 16 * 2 * 2 * D_HEAD


def test_a_long_text_costs_less_than_full_attention():
    layer = make()
    full = plain(layer, "selected")

    def share_of_full(length):
        x = draw(1, length, D_MODEL)
        with OperationCounter() as ours, torch.no_grad():
            layer(x)
        with OperationCounter() as wanted, torch.no_grad():
            full(x, causal=True)
        return ours.total / wanted.total

    shares = [share_of_full(length) for length in (256, 512, 1024)]
    assert shares[0] > shares[1] > shares[2]
    assert shares[2] < 1


BAD = {
    "groups": ({"num_kv_heads": 4}, "num_kv_heads that divides 15 heads, got 4"),
    "stride": ({"compress_stride": 13}, "compress_stride of at most 12, got 13"),
    "fixed": ({"num_first": 5}, "num_first from 0 to 4, got 5"),
    "negative": ({"num_first": -1}, "num_first from 0 to 4, got -1"),
    "size": ({"window": 0}, "window as a whole number of 1 or more, got 0"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD.keys())
def test_sizes_that_do_not_fit(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        dataclasses.replace(CONFIG, **options)
