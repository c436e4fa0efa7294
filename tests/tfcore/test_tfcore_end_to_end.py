"""Everything together: tokenise, embed, blocks, head, trained on the course's own data until it works."""

from __future__ import annotations

import functools
import math

import pytest
import torch

from tfcore.config import AttentionConfig, BlockConfig, EncoderDecoderConfig, ModelConfig, PositionConfig
from tfcore.data import (
    BOS,
    EOS,
    FIRST_SYMBOL,
    IGNORE,
    PAD,
    REFERENT,
    TARGET_VOCABULARY,
    VOCABULARY,
    answer_batch,
    classification_batch,
    draw,
    fault,
    induction_batch,
    language_modeling_batch,
    minimal_pairs,
    split_sentences,
    tagging_batch,
    translation_batch,
)
from tfcore.data import translate as rule
from tfcore.generate import generate, translate
from tfcore.interventions import ablate
from tfcore.losses import classification_loss, labeled_loss, sequence_to_sequence_loss, tagging_loss
from tfcore.mamba import Mamba, MambaConfig
from tfcore.models import Classifier, Decoder, Encoder, EncoderDecoder, Tagger
from tfcore.rwkv import RWKV, RWKVConfig
from tfcore.train import TrainConfig, evaluate, train

pytestmark = pytest.mark.slow


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def stack(
    vocab_size: int, layers: int = 2, d_model: int = 48, heads: int = 4, kind: str = "learned"
) -> ModelConfig:
    block = BlockConfig(AttentionConfig(d_model, heads), d_ff=4 * d_model)
    return ModelConfig(vocab_size, layers, block, PositionConfig("learned", max_len=64))


def fit(model, make_batch, loss, steps: int, peak_lr: float = 5e-3) -> torch.Tensor:
    config = TrainConfig(steps, peak_lr=peak_lr, warmup_steps=steps // 10, weight_decay=0.01)
    losses = train(model, make_batch, config, loss, progress=False)
    model.eval()
    return losses


@functools.cache
def sentences():
    return split_sentences(generator())


@functools.cache
def language_model() -> Decoder:
    """Learn statement, question and answer of the coreference sentences."""
    torch.manual_seed(0)
    model, g = Decoder(stack(len(VOCABULARY))), generator(1)
    fit(model, lambda i: language_modeling_batch(draw(sentences().train, 32, g)), labeled_loss, steps=900)
    return model


def answers(model, group) -> torch.Tensor:
    """Say for each sentence whether the likeliest answer is the noun that "it" means."""
    batch = answer_batch(group)
    with torch.no_grad():
        guess = model(batch.tokens)[:, :-1].argmax(dim=-1)
    asked = batch.labels[:, 1:] != IGNORE
    return guess[asked] == batch.labels[:, 1:][asked]


def test_a_language_model_comes_near_the_entropy_of_the_grammar():
    held_out = sentences().held_out[:500]
    loss = evaluate(language_model(), [language_modeling_batch(held_out)], labeled_loss)
    best = sentences().best_loss(held_out)
    assert best < loss < 1.05 * best


def test_it_knows_what_it_means_and_changes_its_mind_with_the_adjective():
    model = language_model()
    assert answers(model, sentences().held_out[:500]).float().mean() > 0.95
    animal, place = zip(*minimal_pairs(sentences().held_out)[:50], strict=True)
    assert (answers(model, animal) & answers(model, place)).float().mean() > 0.9


def test_some_head_carries_the_referent():
    model, group = language_model(), sentences().held_out[:300]
    before = answers(model, group).float().mean()
    after = []
    for layer in range(2):
        for head in range(4):
            with ablate(model, (layer, head)):
                after.append(answers(model, group).float().mean())
    assert min(after) < before - 0.2


def test_what_it_writes_belongs_to_the_grammar():
    prompt = torch.full((32, 1), BOS)
    texts = generate(language_model(), prompt, 24, temperature=0.7, generator=generator(2), eos=EOS, pad=PAD)
    written = [VOCABULARY.decode(row[(row != PAD) & (row != BOS) & (row != EOS)]) for row in texts]
    right = [text for text in written if fault(text) is None]
    assert len(set(written)) > 16
    assert len(right) > 0.8 * len(written)


def test_induction_takes_two_layers():
    accuracy = {}
    for layers in (1, 2):
        torch.manual_seed(0)
        g = generator(3)
        model = Decoder(stack(FIRST_SYMBOL + 24, layers, d_model=32, heads=2))

        def batch(i, g=g):
            return induction_batch(48, 32, 6, 14, 24, g)

        fit(model, batch, labeled_loss, steps=450)
        test = induction_batch(200, 32, 6, 14, 24, generator(4))
        with torch.no_grad():
            guess = model(test.tokens)[:, :-1].argmax(dim=-1)
        scored = test.labels[:, 1:] != IGNORE
        accuracy[layers] = (guess == test.labels[:, 1:])[scored].float().mean().item()
    assert accuracy[2] > 0.9
    assert accuracy[1] < 0.6


def test_classification():
    torch.manual_seed(0)
    model, g = Classifier(Encoder(stack(len(VOCABULARY))), num_classes=2), generator(5)

    fit(model, lambda i: classification_batch(draw(sentences().train, 32, g)), classification_loss, steps=200)
    test = classification_batch(sentences().held_out[:500])
    with torch.no_grad():
        guess = model(test.tokens, test.tokens != PAD).argmax(dim=-1)
    assert (guess == test.labels).float().mean() > 0.97


def test_tagging():
    torch.manual_seed(0)
    model, g = Tagger(Encoder(stack(len(VOCABULARY))), num_tags=3), generator(6)

    fit(model, lambda i: tagging_batch(draw(sentences().train, 32, g)), tagging_loss, steps=250)
    test = tagging_batch(sentences().held_out[:500])
    with torch.no_grad():
        guess = model(test.tokens, test.tokens != PAD).argmax(dim=-1)
    referents = test.tags == REFERENT
    assert (guess[referents] == REFERENT).float().mean() > 0.95


def test_translation():
    torch.manual_seed(0)
    vocab_size = max(len(VOCABULARY), len(TARGET_VOCABULARY))
    model = EncoderDecoder(EncoderDecoderConfig(stack(vocab_size), stack(vocab_size)))
    g = generator(7)

    fit(
        model,
        lambda i: translation_batch(draw(sentences().train, 32, g)),
        sequence_to_sequence_loss,
        steps=300,
    )
    group = sentences().held_out[:100]
    batch = translation_batch(group)
    written = translate(
        model, batch.source, BOS, max_new_tokens=20, source_padding=batch.source_padding, eos=EOS, pad=PAD
    )
    right = 0
    for sentence, row in zip(group, written, strict=True):
        words = TARGET_VOCABULARY.decode(row[(row != PAD) & (row != BOS) & (row != EOS)])
        right += words == rule(sentence)
    assert right > 0.9 * len(group)


@pytest.mark.parametrize(
    "model",
    [
        lambda: Decoder(stack(256)),
        lambda: Mamba(MambaConfig(vocab_size=256, d_model=64, num_layers=2)),
        lambda: RWKV(RWKVConfig(vocab_size=256, d_model=64, num_layers=2, tied=True)),
    ],
    ids=["decoder", "mamba", "rwkv"],
)
def test_a_new_model_guesses_evenly(model):
    torch.manual_seed(0)
    tokens = torch.randint(256, (8, 32), generator=generator(8))
    assert evaluate(model(), [tokens]) == pytest.approx(math.log(256), rel=0.1)
