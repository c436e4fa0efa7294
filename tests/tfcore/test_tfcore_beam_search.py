"""Beam search against all sequences, against itself without a cache, and against transformers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from decoding_models import (
    Counted,
    decoder,
    draw_tokens,
    left_padding,
)
from naive_decoding import N, T, uncached

from tfcore.generate import (
    beam_search,
    generate,
)
from tfcore.testing import raise_weights


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
