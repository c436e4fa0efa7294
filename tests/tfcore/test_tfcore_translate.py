"""Translation: greedy, by draws and by beams, from a source that is read once."""

from __future__ import annotations

import pytest
import torch
from decoding_models import (
    draw_tokens,
    encoder_decoder,
    left_padding,
)
from naive_decoding import N, naive

from tfcore.generate import (
    Conditioned,
    beam_search,
    filter_logits,
    generate,
    translate,
)
from tfcore.models import EncoderDecoder


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
