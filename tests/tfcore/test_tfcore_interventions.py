"""Places of a model: what is recorded is what the mathematics says, and what is put there flows on."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from tfcore.attention import attention
from tfcore.config import AttentionConfig, BlockConfig, ModelConfig, PositionConfig
from tfcore.generate import generate
from tfcore.interventions import ablate, attention_maps, direct_effect, logit_lens, patch, places, record
from tfcore.layers import MultiHeadAttention, merge_heads, split_heads
from tfcore.mamba import Mamba, MambaConfig
from tfcore.mamba2 import Mamba2, Mamba2Config
from tfcore.models import Decoder, Encoder, EncoderDecoder, MemoryDecoder
from tfcore.models.presets import t5
from tfcore.rwkv import RWKV, RWKVConfig
from tfcore.testing import raise_weights

B, T, D_MODEL, HEADS, KV_HEADS, D_HEAD, D_FF, VOCAB, LAYERS = 3, 5, 12, 4, 2, 6, 10, 23, 2
ATTENTION = AttentionConfig(D_MODEL, HEADS, KV_HEADS, D_HEAD)
BLOCK = BlockConfig(ATTENTION, D_FF)
KINDS = ["none", "sinusoidal", "learned", "shaw", "t5", "rope", "alibi"]


def text(seed: int = 0, length: int = T) -> torch.Tensor:
    return torch.randint(VOCAB, (B, length), generator=torch.Generator().manual_seed(seed))


def config(kind: str = "rope", block: BlockConfig = BLOCK, **fields) -> ModelConfig:
    return ModelConfig(VOCAB, LAYERS, block, PositionConfig(kind, max_len=16), **fields)


def raised(model: nn.Module) -> nn.Module:
    return raise_weights(model).double().eval()


RMS = dataclasses.replace(BLOCK, norm="rms", activation="silu", gated=True)
POST = dataclasses.replace(BLOCK, norm_place="post")
WINDOW = dataclasses.replace(BLOCK, attention=dataclasses.replace(ATTENTION, window=2))
EXPERTS = dataclasses.replace(RMS, num_experts=3, top_k=2, ffn_bias=False)
PADDING = torch.arange(T) < torch.tensor([[5], [3], [4]])
MODELS = {
    **{kind: lambda kind=kind: (Decoder(config(kind)), (text(),)) for kind in KINDS},
    "rms": lambda: (Decoder(config(block=RMS)), (text(),)),
    "window": lambda: (Decoder(config("alibi", WINDOW)), (text(),)),
    "experts": lambda: (Decoder(config(block=EXPERTS)), (text(),)),
    "encoder": lambda: (
        Encoder(config("learned", POST)),
        (text(), torch.arange(T) < torch.tensor([[5], [3], [4]])),
    ),
    "memory": lambda: (MemoryDecoder(config()), (text(), torch.randn(B, 7, D_MODEL, dtype=torch.float64))),
    "both": lambda: (EncoderDecoder(t5(12, 3, 2, d_ff=32, d_head=4, vocab_size=VOCAB)), (text(1, 7), text())),
    "rwkv": lambda: (RWKV(RWKVConfig(VOCAB, D_MODEL, LAYERS)), (text(),)),
    "mamba": lambda: (Mamba(MambaConfig(VOCAB, D_MODEL, LAYERS)), (text(),)),
    "mamba2": lambda: (Mamba2(Mamba2Config(VOCAB, D_MODEL, LAYERS, d_head=6)), (text(),)),
    "layer": lambda: (MultiHeadAttention(ATTENTION), (torch.randn(B, T, D_MODEL, dtype=torch.float64),)),
}


def made(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    return raised(model), inputs


def untouched(model: nn.Module) -> bool:
    return not any(m._forward_hooks or m._forward_pre_hooks or "attend" in vars(m) for m in model.modules())


# --- every place of every model


@pytest.mark.parametrize("name", MODELS)
def test_every_place_is_passed_and_may_be_looked_at_without_a_trace(name):
    model, inputs = made(name)
    before = model(*inputs)
    with record(model, "*") as seen:
        found = model(*inputs)
    assert set(seen) == set(places(model))
    assert len(seen) >= 4
    torch.testing.assert_close(found, before)
    assert untouched(model)
    assert torch.equal(model(*inputs), before)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_what_is_put_into_a_place_flows_on(name):
    """In each place other numbers change the result, and the same numbers do not."""
    model, inputs = made(name)
    before = model(*inputs)
    for place in places(model):
        with record(model, place) as seen:
            model(*inputs)
        changed = torch.where(seen[place] > -torch.inf, seen[place] * 1.7 + 0.3, seen[place])
        with patch(model, place, changed):
            after = model(*inputs)
            with record(model, place) as again:
                model(*inputs)
        assert torch.equal(again[place], changed), place
        assert (after - before).abs().max() > 1e-6, f"{place} has no effect"
        with patch(model, place, seen[place]):
            torch.testing.assert_close(model(*inputs), before)


@pytest.mark.parametrize("kind", KINDS)
def test_the_places_are_what_the_mathematics_says(kind):
    model, tokens = raised(Decoder(config(kind))), text()
    with record(model, "*") as seen:
        logits = model(tokens)
    for layer, block in enumerate(model.stack.blocks):
        at = {name.removeprefix(f"blocks.{layer}."): x for name, x in seen.items()}
        keys, values = (at[f"attention.{x}"].repeat_interleave(2, dim=1) for x in ("keys", "values"))
        if kind not in ("shaw", "t5", "alibi"):  # which add to the scores
            dots = at["attention.queries"] @ keys.mT / D_HEAD**0.5
            future = torch.ones(T, T, dtype=torch.bool).triu(1)
            torch.testing.assert_close(at["attention.scores"], dots.masked_fill(future, -torch.inf))
        torch.testing.assert_close(at["attention.weights"], at["attention.scores"].softmax(-1))
        torch.testing.assert_close(at["attention.heads"], at["attention.weights"] @ values)
        torch.testing.assert_close(
            at["attention.output"], block.attention.W_o(merge_heads(at["attention.heads"]))
        )
        torch.testing.assert_close(at["ffn.output"], block.ffn.W_down(at["ffn.hidden"]))
        stream = seen[f"stream.{layer}"] + at["attention.output"] + at["ffn.output"]
        torch.testing.assert_close(seen[f"stream.{layer + 1}"], stream)
    torch.testing.assert_close(seen["logits"], model.head(model.stack.final_norm(seen[f"stream.{LAYERS}"])))
    assert torch.equal(seen["logits"], logits)


def test_keys_with_a_cache_are_those_of_all_tokens():
    model, tokens = raised(Decoder(config())), text()
    with record(model, "blocks.1.attention.keys") as whole:
        model(tokens)
    cache = model.new_cache(B)
    model(tokens[:, :3], cache)
    with record(model, "blocks.1.attention.keys", "blocks.1.attention.weights") as step:
        model(tokens[:, 3:], cache)
    torch.testing.assert_close(step["blocks.1.attention.keys"], whole["blocks.1.attention.keys"])
    assert step["blocks.1.attention.weights"].shape == (B, HEADS, 2, T)


def test_a_query_that_sees_nothing_has_no_weights():
    layer, x = raised(MultiHeadAttention(ATTENTION)), torch.randn(B, T, D_MODEL, dtype=torch.float64)
    mask = torch.arange(T) < torch.tensor([5, 0, 3])[:, None, None, None]
    expected = layer(x, mask=mask)
    with record(layer, "weights") as seen:
        torch.testing.assert_close(layer(x, mask=mask), expected)
    assert (seen["weights"][1] == 0).all()


def test_gradients_flow_through_what_is_recorded():
    model, tokens = raised(Decoder(config())), text()
    with record(model, "blocks.0.ffn.hidden") as seen:
        logit = model(tokens)[0, -1, 7]
    (gradient,) = torch.autograd.grad(logit, seen["blocks.0.ffn.hidden"])
    nudge = 1e-6 * torch.randn(
        gradient.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
    with patch(model, "blocks.0.ffn.hidden", lambda x: x + nudge):
        moved = model(tokens)[0, -1, 7]
    torch.testing.assert_close(moved - logit, (gradient * nudge).sum(), rtol=1e-4, atol=1e-12)


# --- patches


def test_a_part_of_a_place_is_replaced():
    model, tokens = raised(Decoder(config())), text()
    with record(model, "stream.1") as before:
        model(tokens)
    with patch(model, "stream.1", 2.5, at=(0, -1)), record(model, "stream.1") as after:
        model(tokens)
    expected = before["stream.1"].clone()
    expected[0, -1] = 2.5
    assert torch.equal(after["stream.1"], expected)


def test_a_name_with_a_star_is_every_layer():
    model, tokens = raised(Decoder(config())), text()
    with patch(model, "blocks.*.attention.scores", -torch.inf, at=(..., torch.arange(T) == 0)):
        hidden = attention_maps(model, tokens)
    assert (hidden[..., 0] == 0).all()
    assert (hidden[..., 1:, :].sum(-1) - 1).abs().max() < 1e-12


def test_a_line_of_attention_that_is_cut():
    layer, x = raised(MultiHeadAttention(ATTENTION)), torch.randn(B, T, D_MODEL, dtype=torch.float64)
    with record(layer, "weights", "values") as seen:
        layer(x)
    weights = seen["weights"].clone()
    weights[:, 2, 3, 1] = 0
    heads = weights @ seen["values"].repeat_interleave(2, dim=1)
    with patch(layer, "weights", 0.0, at=(slice(None), 2, 3, 1)):
        torch.testing.assert_close(layer(x), layer.W_o(merge_heads(heads)))


def test_a_score_that_is_raised_takes_weight_from_the_others():
    layer, x = raised(MultiHeadAttention(ATTENTION)), torch.randn(B, T, D_MODEL, dtype=torch.float64)
    with patch(layer, "scores", 50.0, at=(..., 0)), record(layer, "weights") as seen:
        layer(x)
    torch.testing.assert_close(seen["weights"][..., 0], torch.ones(B, HEADS, T, dtype=torch.float64))


def test_contexts_may_be_nested_and_the_inner_one_is_later():
    model, tokens = raised(Decoder(config())), text()
    with patch(model, "stream.1", lambda x: 2 * x), patch(model, "stream.1", lambda x: x + 1):
        with record(model, "stream.1", "blocks.0.attention.weights") as seen:
            model(tokens)
        with record(model, "blocks.0.attention.queries"):
            pass
    with record(model, "stream.1") as plain:
        model(tokens)
    torch.testing.assert_close(seen["stream.1"], 2 * plain["stream.1"] + 1)
    assert untouched(model)


# --- ablations


@pytest.mark.parametrize("by", ["zero", "mean", "resample"])
def test_a_head_is_replaced_by_what_was_asked_for(by):
    model, tokens = raised(Decoder(config())), text()
    with record(model, "blocks.*.attention.heads") as whole:
        before = model(tokens)
    with ablate(model, [(1, 2), (0, 3)], by), record(model, "blocks.*.attention.heads") as cut:
        after = model(tokens)
    assert (after - before).abs().max() > 1e-3
    said, instead = whole["blocks.0.attention.heads"], cut["blocks.0.attention.heads"]
    assert torch.equal(instead[:, :3], said[:, :3])
    expected = {"zero": 0 * said, "mean": said.mean((0, 2), keepdim=True), "resample": said[[2, 0, 1]]}[by]
    torch.testing.assert_close(instead[:, 3], expected.expand_as(said)[:, 3])
    assert torch.equal(model(tokens), before)


def test_a_silenced_head_is_one_without_its_rows_of_the_output_projection():
    model, tokens = raised(Decoder(config())), text()
    with ablate(model, [(1, 2), (0, 3)]):
        silenced = model(tokens)
    with torch.no_grad():
        for layer, head in ((1, 2), (0, 3)):
            model.stack.blocks[layer].attention.W_o.weight[:, head * D_HEAD : (head + 1) * D_HEAD] = 0
    torch.testing.assert_close(silenced, model(tokens))


def test_generation_runs_without_a_head():
    model, prompt = raised(Decoder(config())), text()
    with ablate(model, (1, 0)):
        silenced = generate(model, prompt, 6)
    assert not torch.equal(silenced, generate(model, prompt, 6))


def test_a_model_of_ones_own_has_the_places_of_its_layers():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = MultiHeadAttention(ATTENTION)

        def forward(self, x):
            return x + self.attention(x)

    model, x = raised(Own()), torch.randn(B, T, D_MODEL, dtype=torch.float64)
    assert places(model)[0] == "attention.queries"
    with ablate(model, [(0, head) for head in range(HEADS)]):
        torch.testing.assert_close(model(x), x + model.attention.W_o.bias)


# --- readings


def test_maps_are_the_weights_of_attention():
    model, tokens = raised(Decoder(config("alibi"))), text()
    maps = attention_maps(model, tokens)
    assert maps.shape == (LAYERS, B, HEADS, T, T)
    torch.testing.assert_close(maps.sum(dim=-1), torch.ones(LAYERS, B, HEADS, T, dtype=torch.float64))
    assert (maps.triu(1) == 0).all()
    first = model.stack.blocks[0]
    x = first.norm_attention(model.stack.embedding(tokens))
    q, k, _ = first.attention.W_qkv(x).split([HEADS * D_HEAD, KV_HEADS * D_HEAD, KV_HEADS * D_HEAD], dim=-1)
    q, k = split_heads(q, HEADS), split_heads(k, KV_HEADS).repeat_interleave(2, dim=1)
    scores = q @ k.mT / D_HEAD**0.5 + model.stack.positions.relate(torch.arange(T), torch.arange(T)).bias
    expected = scores.masked_fill(~torch.ones(T, T, dtype=torch.bool).tril(), -torch.inf).softmax(-1)
    torch.testing.assert_close(maps[0], expected)
    assert untouched(model)


def test_maps_of_a_decoder_that_has_a_memory():
    model = raised(EncoderDecoder(t5(12, 3, 2, d_ff=32, d_head=4, vocab_size=VOCAB)))
    maps = attention_maps(model.decoder, text(), memory=model.memory(model.encode(text(length=7)).detach()))
    assert maps.shape == (2, B, 3, T, T)
    assert torch.equal(maps, maps.tril())


def test_the_lens_reads_each_state_through_the_head():
    model, tokens = raised(Decoder(config())), text()
    read = logit_lens(model, tokens)
    assert read.shape == (LAYERS + 1, B, T, VOCAB)
    torch.testing.assert_close(read[-1], model(tokens))
    torch.testing.assert_close(read[0], model.head(model.stack.final_norm(model.stack.embedding(tokens))))


@pytest.mark.parametrize("block", [BLOCK, RMS], ids=["layer", "rms"])
def test_the_parts_of_a_logit_add_up_to_it_and_each_is_its_own(block):
    model, tokens, target = (
        raised(Decoder(config(block=block, logit_bias=True, logit_scale=0.7))),
        text(),
        text(1)[:, 0],
    )
    effect = direct_effect(model, tokens, target)
    with record(model, f"stream.{LAYERS}", "blocks.1.attention.heads") as seen:
        logits = model(tokens)[:, -1].gather(1, target[:, None])[:, 0]
    torch.testing.assert_close(effect.total(), logits)
    assert effect.heads.shape == (LAYERS, B, HEADS)
    x = seen[f"stream.{LAYERS}"][:, -1]
    columns = model.stack.blocks[1].attention.W_o.weight[:, 2 * D_HEAD : 3 * D_HEAD]
    part = seen["blocks.1.attention.heads"][:, 2, -1] @ columns.T
    if block is BLOCK:
        x, part = (v - v.mean(-1, keepdim=True) for v in (x, part))
    norm = model.stack.final_norm
    scaled = part / (x.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight
    expected = 0.7 * (scaled * model.head.linear.weight[target]).sum(-1)
    torch.testing.assert_close(effect.heads[1, :, 2], expected)


# --- what cannot be asked


def test_nothing_is_left_after_an_error():
    model, tokens = raised(Decoder(config())), text()
    before = model(tokens)
    with pytest.raises(RuntimeError), patch(model, "blocks.0.attention.weights", torch.ones(7)):
        model(tokens)
    with pytest.raises(ValueError, match="no such"), record(model, "stream.1", "blocks.1.attention.scores"):
        raise ValueError("no such")
    with pytest.raises(ValueError, match="places"), record(model, "stream.1", "stream.9"):
        pass
    assert untouched(model)
    assert torch.equal(model(tokens), before)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (
            lambda m: record(m, "blocks.1.atention.weights"),
            r"blocks\.1\.attention\.weights.*got 'bl",
        ),
        (lambda m: record(m, "blocks.2.attention.weights"), r"expected one of \d+ places such as"),
        (lambda m: record(m, "layers.*"), r"got 'layers\.\*'"),
        (lambda m: patch(m, "weights", 0.0), r"places such as .*got 'weights'"),
        (lambda m: ablate(m, (0, HEADS)), r"head below 4, got layer 0, head 4"),
        (lambda m: ablate(m, (LAYERS, 0)), r"layer below 2 .*got layer 2"),
        (lambda m: ablate(m, (0, -1)), r"got layer 0, head -1"),
        (lambda m: ablate(m, (0, 1), by="noise"), r"zero, mean, resample, got 'noise'"),
        (lambda m: ablate(RWKV(RWKVConfig(VOCAB, D_MODEL, 1)), (0, 1)), "attention layers, got RWKV"),
    ],
)
def test_wrong_names_are_refused_with_those_there_are(ask, says):
    with pytest.raises(ValueError, match=says), ask(Decoder(config())):
        pass


def test_one_sequence_cannot_be_resampled():
    model = raised(Decoder(config()))
    with ablate(model, (0, 1), by="resample"), pytest.raises(ValueError, match="two sequences or more"):
        model(text()[:1])


def test_parts_of_a_logit_need_a_norm_at_the_end():
    with pytest.raises(ValueError, match="pre-norm blocks"):
        direct_effect(Decoder(config(block=POST)), text(), text()[:, 0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_is_recorded_in_a_narrow_type_is_computed_in_a_wide_one(dtype):
    """As attention computes it: large scores stay finite, and rows of weights sum to 1."""
    model = raise_weights(Decoder(config())).eval().to(dtype)
    for block in model.stack.blocks:
        block.attention.W_qkv.weight.data[: 2 * D_MODEL] *= 30
    plain = model(text())
    with record(model, "blocks.*.attention.weights") as seen:
        recorded = model(text())
    assert torch.isfinite(plain).all()
    assert torch.allclose(recorded.float(), plain.float(), atol=0.05, rtol=0.05)
    for weights in seen.values():
        assert torch.allclose(weights.float().sum(-1), torch.ones(()), atol=1e-5)


@pytest.mark.parametrize("place", ["weights", "scores"])
def test_to_record_lets_no_nan_out_of_padding(place):
    model = raised(Decoder(config("rope", tied=False)))
    real, tokens = torch.arange(T) >= torch.tensor([[0], [2], [1]]), text()
    with torch.no_grad():
        model.stack.embedding.weight[0] = torch.nan
    tokens = tokens.clamp(min=1).where(real, torch.tensor(0))
    plain = model(tokens, padding=real)
    with record(model, f"blocks.*.attention.{place}"):
        recorded = model(tokens, padding=real)
    assert plain[real].isfinite().all()
    torch.testing.assert_close(recorded[real], plain[real])


def test_a_layers_own_attention_is_used_while_recording_and_kept():
    model, calls = raised(Decoder(config())), []

    def mine(q, k, v, **options):
        calls.append(q.shape)
        return attention(q, k, v, **options)

    layer = next(part for part in model.modules() if isinstance(part, MultiHeadAttention))
    layer.attend = mine
    with record(model, "blocks.0.attention.queries"):
        model(text())
    assert layer.attend is mine
    assert len(calls) == 1


def test_heads_may_be_numbers_of_numpy():
    model, tokens = raised(Decoder(config())), text()
    found = np.unravel_index(np.int64(5), (LAYERS, HEADS))
    with ablate(model, head=found):
        theirs = model(tokens)
    with ablate(model, head=(1, 1)):
        assert torch.equal(theirs, model(tokens))


def test_direct_effects_are_those_of_the_model_without_dropout():
    block = dataclasses.replace(BLOCK, dropout=0.5)
    model, target = raised(Decoder(config(block=block))), torch.tensor([3, 1, 7])
    logits = model(text())[torch.arange(B), -1, target]
    model.train()
    frozen = model.stack.blocks[0].eval()
    torch.testing.assert_close(direct_effect(model, text(), target).total(), logits)
    assert model.training
    assert not frozen.training
