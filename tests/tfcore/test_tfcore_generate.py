"""Generation against loops without caches, exact probabilities, all sequences, and transformers."""

from __future__ import annotations

import copy
import itertools
import math

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
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import nn

from tfcore.generate import (
    Conditioned,
    beam_search,
    filter_logits,
    generate,
    token_probabilities,
    translate,
)
from tfcore.models import Encoder, EncoderDecoder
from tfcore.quantize import quantize_weights
from tfcore.rwkv import RWKV, RWKVConfig
from tfcore.testing import AllocationMeter, raise_weights

B, T, N = 2, 5, 8


def naive(model, prompt, n, choose=lambda logits: logits.argmax(-1), context_len=None):
    """Read everything anew for each token."""
    tokens = prompt
    for _ in range(n):
        seen = tokens if context_len is None else tokens[:, -context_len:]
        tokens = torch.cat([tokens, choose(model(seen)[:, -1]).unsqueeze(1)], dim=1)
    return tokens


def uncached(model):
    return lambda tokens, **options: model(tokens, **options)


def tables(vocab_size, seed=0, dtype=torch.float64):
    """Return a model of bigrams: logits that depend on the last token alone."""
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(vocab_size, vocab_size, generator=generator, dtype=dtype)
    return logits, lambda tokens: logits[tokens]


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


# --- sampling


@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.7}, {"top_k": 9, "top_p": 0.8}], ids=str)
def test_sampling_draws_one_multinomial_per_step(options):
    model, prompt = decoder(), draw_tokens(B, T)
    generator = torch.Generator().manual_seed(5)

    def choose(logits):
        p = filter_logits(logits / 1.7, **options).softmax(-1)
        return torch.multinomial(p, 1, generator=generator).squeeze(1)

    expected = naive(model, prompt, N, choose)
    state = torch.get_rng_state()
    got = generate(model, prompt, N, 1.7, torch.Generator().manual_seed(5), **options)
    assert torch.equal(got, expected)
    assert torch.equal(torch.get_rng_state(), state), "drew from the global generator"


def exact_pairs(logits, start, temperature, top_k, top_p):
    """List the probability of each pair of tokens after ``start``, in numpy and by the definitions."""

    def row(z):
        z = z.numpy() / temperature
        order = np.argsort(-z)
        keep = order[: top_k or len(z)]
        p = np.zeros(len(z))
        p[keep] = np.exp(z[keep] - z.max())
        p /= p.sum()
        kept, mass = [], 0.0
        for token in keep:
            if mass < (top_p or 1.0):
                kept.append(token)
            mass += p[token]
        q = np.zeros(len(z))
        q[kept] = p[kept]
        return q / q.sum()

    first = row(logits[start])
    return np.array([first[a] * row(logits[a]) for a in range(len(first))]).ravel()


def rejects(counts, p):
    """Test counts against probabilities, at a false-alarm rate of 1e-7."""
    if counts[p == 0].sum() > 0:
        return True
    counts, p = counts[p > 0], p[p > 0]
    expected = p * counts.sum()
    rare = expected < 5  # pooled, since the chi-square law needs counts
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    statistic = ((counts - expected) ** 2 / expected).sum()
    return statistic > stats.chi2.isf(1e-7, len(counts) - 1)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, None, None), (0.6, None, None), (1.5, 3, None), (1.0, None, 0.8), (1.3, 4, 0.75)],
)
def test_samples_have_the_distribution_they_should(temperature, top_k, top_p):
    logits, model = tables(5)
    generator = torch.Generator().manual_seed(0)
    prompt = torch.full((20_000, 1), 2)
    tokens = generate(model, prompt, 2, temperature, generator, top_k=top_k, top_p=top_p)
    counts = torch.bincount(tokens[:, 1] * 5 + tokens[:, 2], minlength=25).numpy()
    assert not rejects(counts, exact_pairs(logits, 2, temperature, top_k, top_p))
    for wrong in ((1 / temperature + 0.1, top_k, top_p), (temperature, 2, top_p), (temperature, top_k, 0.5)):
        assert rejects(counts, exact_pairs(logits, 2, *wrong)), "the test has no power"


@given(
    st.lists(st.integers(-12, 12), min_size=1, max_size=12, unique=True),
    st.none() | st.integers(1, 12),
    st.none() | st.floats(0.01, 1.0),
)
def test_filter_by_its_definition(numbers, top_k, top_p):
    z = torch.tensor(numbers, dtype=torch.float64) / 8
    top_k = None if top_k is None else min(top_k, len(z))
    got = filter_logits(z, top_k, top_p)
    order = sorted(range(len(z)), key=lambda i: -z[i])[:top_k]
    p = torch.tensor([z[i] for i in order], dtype=torch.float64).softmax(0).tolist()
    before = [math.fsum(p[:i]) for i in range(len(p))]
    if top_p is not None and min(abs(b - top_p) for b in before) < 1e-12:
        return  # a tie that rounding decides
    kept = {i for i, b in zip(order, before, strict=True) if top_p in (None, 1.0) or b < top_p}
    assert {i for i in range(len(z)) if got[i] > -math.inf} == kept
    assert order[0] in kept
    assert all(got[i] == z[i] for i in kept)


def test_filter_keeps_k_of_equals_the_first_at_least_and_its_input():
    z = torch.zeros(2, 3, 7)
    assert (filter_logits(z, top_k=4) == 0).sum(-1).eq(4).all()
    assert (filter_logits(z, top_p=1e-9) == 0).sum(-1).eq(1).all()
    assert torch.equal(z, torch.zeros(2, 3, 7))
    tiny = torch.tensor([0.0, -40.0, -80.0])
    assert torch.equal(filter_logits(tiny, top_p=1.0), tiny)
    assert filter_logits(tiny.bfloat16(), top_p=0.9).dtype == torch.bfloat16


def test_filter_takes_top_p_of_what_top_k_leaves():
    p = torch.tensor([0.2, 0.4, 0.1, 0.3])
    assert filter_logits(p.log(), 2, 0.55).softmax(-1).tolist() == [0, 1, 0, 0]
    assert filter_logits(p.log(), None, 0.55).exp().tolist() == pytest.approx([0, 0.4, 0, 0.3])


def test_filter_lets_gradients_flow():
    z = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: filter_logits(z, 4, 0.8).softmax(-1), z)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_k": 0}, "top_k from 1 to 7, got 0"),
        ({"top_k": 8}, "top_k from 1 to 7, got 8"),
        ({"top_p": 0.0}, "top_p above 0 and at most 1, got 0.0"),
        ({"top_p": 1.1}, "top_p above 0 and at most 1, got 1.1"),
    ],
)
def test_filter_rejects(options, message):
    with pytest.raises(ValueError, match=message):
        filter_logits(torch.zeros(7), **options)


@given(st.floats(0.05, 20))
def test_probabilities_at_any_temperature(temperature):
    z = torch.tensor([1000.0, 999.0, -1e4], dtype=torch.float64)
    expected = np.exp(np.array([0.0, -1.0, -11_000.0]) / temperature)
    got = token_probabilities(z, temperature)
    np.testing.assert_allclose(got, expected / expected.sum(), atol=1e-12)


def test_probabilities_are_wide_and_cold_ones_certain():
    z = torch.tensor([[1.0, 3.0, 2.0]], dtype=torch.bfloat16)
    assert token_probabilities(z).dtype == torch.float32
    assert token_probabilities(z, 0.0).tolist() == [[0.0, 1.0, 0.0]]
    with pytest.raises(ValueError, match="temperature of 0 or more, got -1"):
        token_probabilities(z, -1.0)


def test_the_loop_allocates_little_beside_the_model():
    _, model = tables(5)
    with AllocationMeter() as meter:
        generate(model, torch.full((1, 1), 2), 400)
    assert meter.peak_bytes < 401 * 5 * 8 * 2 + 401 * 8 * 2  # logits of the text, the text


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
    "no beam": (lambda m, p: beam_search(m, p, 0, 1), "1 beam and 1 new token or more, got 0 and 1"),
    "no step": (lambda m, p: beam_search(m, p, 1, 0), "1 beam and 1 new token or more, got 1 and 0"),
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


@pytest.mark.parametrize("number", [torch.tensor(3), np.int64(3)])
def test_a_whole_number_of_any_kind_will_do(number):
    prompt = draw_tokens(1, T)
    assert torch.equal(generate(decoder(), prompt, number), generate(decoder(), prompt, 3))


# --- beam search


def trigrams(vocab_size, seed=0):
    """Return log-probabilities that depend on the last two tokens, and the model that gives them."""
    generator = torch.Generator().manual_seed(seed)
    shape = (vocab_size,) * 3
    table = (1.5 * torch.randn(shape, generator=generator, dtype=torch.float64)).log_softmax(-1)

    def model(tokens):
        before = torch.nn.functional.pad(tokens[:, :-1], (1, 0), value=0)
        return table[before, tokens] + 3.0  # logits are known up to a constant

    return table.numpy(), model


def all_texts(table, prompt, n, length_penalty, eos):
    """Score every text that a prompt can be continued to, best first."""
    vocab_size, scored = len(table), {}
    for tail in itertools.product(range(vocab_size), repeat=n):
        tail = tail[: tail.index(eos) + 1] if eos in tail else tail
        a, b = 0 if len(prompt) == 1 else prompt[-2], prompt[-1]
        total = 0.0
        for token in tail:
            total += table[a, b, token]
            a, b = b, token
        scored[tail + (eos,) * (n - len(tail))] = total / len(tail) ** length_penalty
    return sorted(scored.items(), key=lambda item: -item[1])


@pytest.mark.parametrize("eos", [None, 1])
@pytest.mark.parametrize("length_penalty", [0.0, 0.7, 1.0, 2.0, -0.5])
@pytest.mark.parametrize("seed", [0, 1])
def test_as_many_beams_as_texts_find_the_best_of_all(length_penalty, eos, seed):
    table, model = trigrams(4, seed)
    prompt = torch.tensor([[2, 3], [0, 2]])
    texts, scores = beam_search(model, prompt, 4**4, 4, length_penalty, eos)
    for row in range(2):
        expected = all_texts(table, prompt[row].tolist(), 4, length_penalty, eos)
        real = scores[row] > -math.inf
        assert int(real.sum()) == len(expected)
        np.testing.assert_allclose(scores[row, real], [score for _, score in expected], atol=1e-12)
        found = [tuple(text) for text in texts[row, real, 2:].tolist()]
        assert found[0] == expected[0][0]
        assert dict(zip(found, scores[row, real].tolist(), strict=True)) == pytest.approx(dict(expected))
        assert torch.equal(texts[row, :, :2], prompt[row].expand(len(texts[row]), -1))


def test_two_beams_find_what_greedy_misses():
    misses = 0
    for seed in range(20):
        table, model = trigrams(4, seed)
        prompt = torch.tensor([[2, 3]])
        best = all_texts(table, [2, 3], 4, 0.0, None)[0][1]
        scores = [beam_search(model, prompt, beams, 4, 0.0)[1][0, 0].item() for beams in (1, 2, 64)]
        greedy = generate(model, prompt, 4)
        assert torch.equal(beam_search(model, prompt, 1, 4, 0.0)[0][:, 0], greedy)
        assert scores[2] == pytest.approx(best, abs=1e-12)
        misses += scores[0] < scores[1] - 1e-9
    assert misses >= 3


@pytest.mark.parametrize(("position", "window"), [("rope", None), ("alibi", 3), ("t5", None)])
@pytest.mark.parametrize("lengths", [None, (3, T, 1)])
def test_beam_search_with_a_cache_is_the_one_without(position, window, lengths):
    model, prompt = Counted(decoder(position, window)), draw_tokens(3, T)
    padding = None if lengths is None else left_padding(lengths, T)
    texts, scores = beam_search(model, prompt, 4, N, 1.0, eos=7, padding=padding)
    assert model.read == [T] + [1] * (N - 1)
    for row in range(3):
        alone = prompt[row : row + 1, T - (T if lengths is None else lengths[row]) :]
        expected, expected_scores = beam_search(uncached(model.model), alone, 4, N, 1.0, eos=7)
        assert torch.equal(texts[row, :, T - alone.shape[1] :], expected[0])
        torch.testing.assert_close(scores[row], expected_scores[0], rtol=0, atol=1e-10)
    assert (scores.diff(dim=1) <= 0).all()


def test_beam_search_stops_when_nothing_can_improve():
    logits = torch.full((3, 3), -6.0)
    logits[:, 1] = 0.0  # the end, nearly always
    model = Counted(lambda tokens: logits[tokens])
    texts, _ = beam_search(model, torch.tensor([[2]]), 2, 50, 0.0, eos=1, pad=0)
    assert texts[0, 0].tolist() == [2, 1] + [0] * 49
    assert len(model.read) < 5


@pytest.fixture(scope="module")
def gpt2():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=11, n_positions=32, n_embd=12, n_layer=2, n_head=3, bos_token_id=None, eos_token_id=None
    )
    return raise_weights(transformers.GPT2LMHeadModel(config).eval(), seed=4)


@pytest.mark.slow
@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.5, -1.0])
@pytest.mark.parametrize("beams", [2, 5])
@pytest.mark.parametrize("eos", [3, 6, 9])
def test_beam_search_is_that_of_transformers(gpt2, beams, length_penalty, eos):
    prompt = draw_tokens(3, 4, seed=8, vocab_size=11)
    expected = gpt2.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=9,
        num_beams=beams,
        num_return_sequences=beams,
        length_penalty=length_penalty,
        early_stopping="never",
        do_sample=False,
        eos_token_id=eos,
        pad_token_id=10,
        return_dict_in_generate=True,
        output_scores=True,
    )
    texts, scores = beam_search(lambda x: gpt2(x).logits, prompt, beams, 9, length_penalty, eos, pad=10)
    sequences = expected.sequences.unflatten(0, (3, beams))
    assert torch.equal(texts[..., : sequences.shape[-1]], sequences)
    assert (texts[..., sequences.shape[-1] :] == 10).all()
    torch.testing.assert_close(scores.flatten(), expected.sequences_scores, rtol=1e-5, atol=1e-5)


def test_sampling_filters_are_those_of_transformers():
    warpers = pytest.importorskip("transformers.generation.logits_process")
    z = torch.randn(20, 37, generator=torch.Generator().manual_seed(0))
    for k in (1, 5, 37):
        assert torch.equal(filter_logits(z, top_k=k), warpers.TopKLogitsWarper(k)(None, z))
    for p in (0.01, 0.3, 0.9):
        assert torch.equal(filter_logits(z, top_p=p), warpers.TopPLogitsWarper(p)(None, z))


# --- translation


class Spied(EncoderDecoder):
    """An encoder-decoder that notes its calls."""

    def encode(self, *args):
        self.calls.append("encode")
        return super().encode(*args)

    def memory(self, *args):
        self.calls.append("memory")
        return super().memory(*args)

    def decode(self, target, *args, **kwargs):
        self.calls.append(target.shape[1])
        return super().decode(target, *args, **kwargs)


def spied(kind="t5"):
    model = Spied(encoder_decoder(kind).config).double().eval()
    model.load_state_dict(encoder_decoder(kind).state_dict())
    model.calls = []
    return model


BOS, S = 0, 7


@pytest.mark.parametrize("kind", ["t5", "sinusoidal"])
@pytest.mark.parametrize("lengths", [None, (S, 3, 5)])
def test_a_translation_is_the_loop_over_the_whole_model(kind, lengths):
    model, source = spied(kind), draw_tokens(3, S)
    padding = None if lengths is None else left_padding(lengths, S)
    got = translate(model, source, BOS, N, padding)
    start = torch.full((3, 1), BOS)
    expected = naive(lambda target: EncoderDecoder.forward(model, source, target, padding), start, N)
    assert torch.equal(got, expected[:, 1:])


def test_the_source_is_read_and_projected_once():
    for options in ({}, {"beams": 3}, {"temperature": 1.0, "generator": torch.Generator()}):
        model = spied()
        translate(model, draw_tokens(3, S), BOS, N, **options)
        assert model.calls == ["encode", "memory"] + [1] * N


@pytest.mark.parametrize("lengths", [None, (S, 3, 5)])
def test_beams_of_a_translation(lengths):
    model, source = encoder_decoder(), draw_tokens(3, S)
    padding = None if lengths is None else left_padding(lengths, S)
    got = translate(model, source, BOS, N, padding, eos=5, pad=1, beams=4, length_penalty=0.6)
    for row in range(3):
        one, real = source[row : row + 1], None if padding is None else padding[row : row + 1]

        def logits(target, one=one, real=real):
            copies = len(target)
            return model(one.expand(copies, -1), target, None if real is None else real.expand(copies, -1))

        texts, _ = beam_search(logits, torch.tensor([[BOS]]), 4, N, 0.6, 5, 1)
        assert torch.equal(got[row], texts[0, 0, 1:])


def test_a_source_serves_several_searches():
    conditioned, start = Conditioned(encoder_decoder(), draw_tokens(3, S)), torch.full((3, 1), BOS)
    greedy = generate(conditioned, start, N)
    beam_search(conditioned, start, 4, N)
    assert torch.equal(generate(conditioned, start, N), greedy)


def test_draws_of_a_translation():
    model, source = encoder_decoder(), draw_tokens(3, S)
    generators = [torch.Generator().manual_seed(1) for _ in range(2)]
    got = translate(model, source, BOS, N, temperature=1.3, generator=generators[0], top_k=6)
    start = torch.full((3, 1), BOS)

    def choose(logits):
        p = filter_logits(logits / 1.3, 6).softmax(-1)
        return torch.multinomial(p, 1, generator=generators[1]).squeeze(1)

    assert torch.equal(got, naive(lambda target: model(source, target), start, N, choose)[:, 1:])


def test_beams_and_a_temperature_exclude_each_other():
    with pytest.raises(ValueError, match=r"beams or a temperature, got 2 and 0\.5"):
        translate(encoder_decoder(), draw_tokens(3, S), BOS, N, beams=2, temperature=0.5)
