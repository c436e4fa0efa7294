"""Generation against loops without caches: greedy text, where it ends, and what is refused."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from decoding_models import (
    POSITIONS,
    Counted,
    V,
    config,
    decoder,
    draw_tokens,
    encoder_decoder,
    left_padding,
)
from naive_decoding import B, N, T, naive, tables, uncached
from torch import nn

from tfcore.generate import (
    beam_search,
    generate,
    translate,
)
from tfcore.models import Encoder
from tfcore.quantize import quantize_weights
from tfcore.rwkv import RWKV, RWKVConfig
from tfcore.testing import raise_weights

# --- greedy


@pytest.mark.parametrize("chunk", [None, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 5, 9))])
@pytest.mark.parametrize(("position", "window"), [*((p, None) for p in POSITIONS), ("rope", 3), ("t5", 3)])
def test_greedy_is_the_loop_without_a_cache(position, window, chunk):
    model, prompt = decoder(position, window), draw_tokens(B, T)
    before = prompt.clone()
    tokens = generate(model, prompt, N, chunk=chunk)
    assert torch.equal(tokens, naive(model, prompt, N))
    assert torch.equal(tokens, generate(uncached(model), prompt, N))
    assert torch.equal(prompt, before)
    assert tokens.dtype == prompt.dtype


def test_a_recurrent_model_generates_too():
    model = raise_weights(RWKV(RWKVConfig(V, d_model=12, num_layers=2))).double()
    prompt = draw_tokens(B, T)
    assert torch.equal(generate(model, prompt, N), naive(model, prompt, N))


@pytest.mark.parametrize("n", [0, 1, 2, N])
def test_the_prompt_is_read_once_and_each_token_but_the_last_once(n):
    model = Counted(decoder())
    assert generate(model, draw_tokens(B, T), n).shape == (B, T + n)
    assert model.read == ([T] + [1] * (n - 1) if n else [])


@pytest.mark.parametrize(("chunk", "expected"), [(1, [1] * 5), (2, [2, 2, 1]), (5, [5]), (7, [5])])
def test_a_prompt_is_read_in_chunks_if_asked(chunk, expected):
    model = Counted(decoder())
    generate(model, draw_tokens(B, T), 3, chunk=chunk)
    assert model.read == [*expected, 1, 1]


def test_a_model_that_takes_tokens_and_cache_alone():
    """The contract of the exercises: ``new_cache(batch, max_len)`` and ``model(tokens, cache)``."""

    class Plain:
        def new_cache(self, batch, max_len):
            assert (batch, max_len) == (B, T + N)
            return decoder().new_cache(batch, max_len)

        def __call__(self, tokens, cache):
            return decoder()(tokens, cache)

    prompt = draw_tokens(B, T)
    assert torch.equal(generate(Plain(), prompt, N), naive(decoder(), prompt, N))


def test_a_cache_goes_on_with_a_longer_text():
    model, prompt, more = Counted(decoder()), draw_tokens(B, T), draw_tokens(B, 3, seed=1)
    cache = model.new_cache(B)
    answer = generate(model, prompt, 2, cache=cache)
    question = torch.cat([answer, more], dim=1)
    assert torch.equal(generate(model, question, 2, cache=cache), naive(decoder(), question, 2))
    assert model.read == [T, 1, 1 + 3, 1]


@pytest.mark.parametrize("context_len", [1, 3, T, T + 3, T + N, 99])
@pytest.mark.parametrize("lengths", [None, (T, 2)])
def test_a_context_that_is_cut(context_len, lengths):
    model, prompt = decoder("learned"), draw_tokens(B, T)
    padding = None if lengths is None else left_padding(lengths, T)
    tokens = generate(model, prompt, N, context_len=context_len, padding=padding)
    for row, length in enumerate(lengths or (T, T)):
        alone = prompt[row : row + 1, T - length :]
        assert torch.equal(tokens[row, T - length :], naive(model, alone, N, context_len=context_len)[0])


def test_a_context_lets_a_table_of_positions_be_outlived():
    model, prompt = decoder("learned"), draw_tokens(1, T)
    assert generate(model, prompt, 40, context_len=40).shape == (1, 45)
    with pytest.raises(ValueError, match="positions below 40"):
        generate(model, prompt, 40)


@pytest.mark.slow
@pytest.mark.parametrize(("position", "window"), [*((p, None) for p in POSITIONS), ("alibi", 3), ("rope", 3)])
@pytest.mark.parametrize("wrap", [lambda model: model, uncached])
@pytest.mark.parametrize("chunk", [None, 2])
def test_prompts_that_are_padded_on_the_left_are_as_alone(position, window, wrap, chunk):
    model, prompt, lengths = decoder(position, window), draw_tokens(3, T), (2, T, 1)
    tokens = generate(wrap(model), prompt, N, padding=left_padding(lengths, T), chunk=chunk)
    for row, length in enumerate(lengths):
        alone = generate(model, prompt[row : row + 1, T - length :], N)
        assert torch.equal(tokens[row, T - length :], alone[0])


# --- ending


def test_a_text_that_ended_is_padded_and_the_others_go_on():
    model, prompt = decoder(), draw_tokens(4, T, seed=3)
    free = generate(model, prompt, N)
    eos = int(free[1, T + 2])
    for pad in (None, 0):
        counted = Counted(model)
        tokens = generate(counted, prompt, N, eos=eos, pad=pad)
        last = 0
        for row in range(4):
            text = free[row, T:].tolist()
            end = text.index(eos) + 1 if eos in text else N
            last = max(last, end)
            assert tokens[row].tolist() == free[row, : T + end].tolist() + [eos if pad is None else 0] * (
                N - end
            )
        assert len(counted.read) == last


def test_generation_stops_when_all_have_ended():
    _, model = tables(7)
    model = Counted(model)
    prompt = torch.tensor([[3]])
    eos = int(naive(model.model, prompt, 2)[0, -1])
    assert generate(model, prompt, 50, eos=eos).shape == (1, 51)
    assert len(model.read) <= 2


@pytest.mark.parametrize("small", [False, True], ids=["float32", "int8"])
def test_generation_under_autocast_keeps_a_cache_of_its_type(small):
    model = copy.deepcopy(decoder()).float()
    model = quantize_weights(model) if small else model
    with torch.autocast("cpu", torch.bfloat16):
        cache = model.new_cache(B, T + 3)
        generate(model, draw_tokens(B, T), 3, cache=cache)
    assert cache.length == T + 2
    assert cache.layers[0].keys.dtype == (torch.float32 if small else torch.bfloat16)


def test_what_was_generated_can_be_trained_on():
    model = raise_weights(decoder_to_train()).train()
    tokens = generate(model, draw_tokens(1, 3), 3)
    model(tokens).sum().backward()
    texts, _ = beam_search(model, draw_tokens(1, 3), 2, 3)
    model(texts[:, 0]).sum().backward()
    assert model.stack.embedding.weight.grad.abs().sum() > 0


def decoder_to_train():
    return type(decoder())(decoder().config)


BAD = {
    "one axis": (lambda m, p: generate(m, p[0], 1), r"prompt \(B, T\) of whole numbers"),
    "no token": (lambda m, p: generate(m, p[:, :0], 1), "T of 1 or more"),
    "floats": (lambda m, p: generate(m, p.float(), 1), "whole numbers"),
    "negative length": (lambda m, p: generate(m, p, -1), "a whole number of 0 or more, got -1"),
    "half a token": (lambda m, p: generate(m, p, 2.5), "a whole number of 0 or more, got 2.5"),
    "no number": (lambda m, p: generate(m, p, 1, float("nan")), "temperature of 0 or more, got nan"),
    "a name for a cache": (lambda m, p: generate(m, p, 1, cache="growing"), "from new_cache, got a str"),
    "a mask for a cache": (lambda m, p: m(p, p > 0), "got a Tensor; a mask of real tokens goes by its name"),
    "a source": (lambda m, p: generate(encoder_decoder(), p, 1), "got EncoderDecoder; .* with translate"),
    "an encoder": (lambda m, p: generate(Encoder(config()), p, 1), "got Encoder; an encoder writes nothing"),
    "padding for none": (
        lambda m, p: generate(lambda tokens: m(tokens), p, 1, padding=p >= 0),
        "expected a model that takes padding beside it, got function",
    ),
    "no beam of a translation": (
        lambda m, p: translate(encoder_decoder(), p, 0, 1, beams=0),
        "1 beam or more, got 0",
    ),
    "negative temperature": (lambda m, p: generate(m, p, 1, -0.1), "temperature of 0 or more"),
    "no context": (lambda m, p: generate(m, p, 1, context_len=0), "context_len of 1 or more, got 0"),
    "no chunk": (lambda m, p: generate(m, p, 1, chunk=0), "chunk of 1 or more, got 0"),
    "padding on the right": (
        lambda m, p: generate(m, p, 1, padding=left_padding([5, 4], T).flip(1)),
        "pad on the left",
    ),
    "other padding": (lambda m, p: generate(m, p, 1, padding=left_padding([4, 4], 4)), "expected padding"),
    "one text": (lambda m, p: beam_search(m, p[0], 1, 1), r"prompt \(B, T\) .*prompt\[None\]"),
    "all seen": (lambda m, p: generate(m, p, 1, cache=seen(m, p)), rf"text of {T} tokens, .*has seen {T};"),
    "no beam": (lambda m, p: beam_search(m, p, 0, 1), "of new tokens from 1 on, got 0 and 1"),
    "no step": (lambda m, p: beam_search(m, p, 1, 0), "of new tokens from 1 on, got 1 and 0"),
    "half a beam": (lambda m, p: beam_search(m, p, 1.5, 2), "whole number of beams .* got 1.5 and 2"),
    "half a token of k": (lambda m, p: generate(m, p, 2, temperature=1.0, top_k=2.5), "a whole top_k from 1"),
}


def seen(model, prompt):
    cache = model.new_cache(len(prompt))
    model(prompt, cache)
    return cache


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        call(decoder(), draw_tokens(B, T))


def test_a_cache_without_room_for_the_whole_text_is_left_alone():
    model = decoder()
    cache = model.new_cache(B, T + N - 2)
    with pytest.raises(
        ValueError, match=f"at most {T + N - 2} tokens, the room of this cache, got {T + N - 1}"
    ):
        generate(model, draw_tokens(B, T), N, cache=cache)
    assert cache.length == 0
    assert generate(model, draw_tokens(B, T), N - 1, cache=cache).shape == (B, T + N - 1)


def test_padding_goes_to_what_has_no_signature_or_a_call_of_its_own():
    class Own(nn.Module):
        def __call__(self, tokens, cache=None, padding=None):
            return decoder()(tokens, cache, padding)

    prompt, padding = draw_tokens(2, T), left_padding([5, 4], T)
    expected = generate(
        lambda tokens, padding=None: decoder()(tokens, padding=padding), prompt, 3, padding=padding
    )
    assert torch.equal(generate(Own(), prompt, 3, padding=padding), expected)


@pytest.mark.parametrize("chunk", [None, 2])
def test_the_head_reads_the_last_place_of_a_prompt_alone(chunk):
    model, read = decoder(), []
    model.head.register_forward_pre_hook(lambda module, inputs: read.append(inputs[0].shape[1]))
    generate(model, draw_tokens(B, T), 3, chunk=chunk)
    assert set(read) == {1}


@pytest.mark.parametrize("position", POSITIONS)
def test_the_last_places_alone_have_the_logits_that_they_have_among_all(position):
    model, tokens = decoder(position), draw_tokens(B, T)
    for last in (1, 2, T, T + 3):
        torch.testing.assert_close(model(tokens, keep_last=last), model(tokens)[:, -last:])
    with pytest.raises(ValueError, match="keep_last of 1 or more, got 0"):
        model(tokens, keep_last=0)


@pytest.mark.parametrize("number", [torch.tensor(3), np.int64(3)])
def test_a_whole_number_of_any_kind_will_do(number):
    prompt = draw_tokens(1, T)
    assert torch.equal(generate(decoder(), prompt, number), generate(decoder(), prompt, 3))
