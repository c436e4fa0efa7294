"""Speculative decoding gives the target's own distribution, in fewer calls of the target."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from decoding_models import EACH_POSITION, Counted, V, decoder, draw_tokens
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tfcore.generate import generate, speculative_accept, speculative_generate, token_probabilities


def distribution(seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).mul(1.5).softmax(-1)


# --- the rule


def test_the_rule_by_hand():
    p = torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3], [0.1, 0.1, 0.8]], dtype=torch.float64)
    q = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.4, 0.4]], dtype=torch.float64)
    guesses = torch.tensor([0, 2])  # ratios 0.4 and 0.75
    for u, expected_count, expected in [
        ((0.39, 0.74), 2, [0.1, 0.1, 0.8]),
        ((0.39, 0.76), 1, [1.0, 0.0, 0.0]),
        ((0.41, 0.00), 0, [0.0, 2 / 3, 1 / 3]),
    ]:
        before = p.clone(), q.clone()
        count, following = speculative_accept(p, q, guesses, torch.tensor(u, dtype=torch.float64))
        assert count == expected_count
        torch.testing.assert_close(following, torch.tensor(expected, dtype=torch.float64))
        assert torch.equal(p, before[0])
        assert torch.equal(q, before[1])


def texts_of_a_round(p, q, n, vocab_size):
    """Sum over all guesses and all outcomes, in algebra: the distribution of the first n + 1 tokens.

    ``p[text]`` and ``q[text]`` are the distributions after a text. The tokens after those that a round gives
    are drawn from p, as later rounds would have it.
    """
    total = dict.fromkeys(itertools.product(range(vocab_size), repeat=n + 1), 0.0)

    def spread(text, probability):
        if len(text) == n + 1:
            total[text] += probability
        else:
            for token in range(vocab_size):
                spread((*text, token), probability * p[text][token].item())

    for guesses in itertools.product(range(vocab_size), repeat=n):
        p_target = torch.stack([p[guesses[:i]] for i in range(n + 1)])
        p_draft = torch.stack([q[guesses[:i]] for i in range(n)])
        drawn = math.prod(p_draft[i, x].item() for i, x in enumerate(guesses))
        ratios = [min(1.0, (p_target[i, x] / p_draft[i, x]).item()) for i, x in enumerate(guesses)]
        for falls in range(n + 1):  # the first guess that falls; n: none does
            probability = drawn * math.prod(ratios[:falls]) * (1 - ratios[falls] if falls < n else 1)
            if probability == 0:
                continue
            u = torch.tensor([r / 2 for r in ratios], dtype=torch.float64)
            if falls < n:
                u[falls] = (1 + ratios[falls]) / 2
            count, following = speculative_accept(p_target, p_draft, torch.tensor(guesses), u)
            assert count == falls
            for token in range(vocab_size):
                spread((*guesses[:count], token), probability * following[token].item())
    return total


@pytest.mark.parametrize(("vocab_size", "n"), [(2, 1), (3, 1), (3, 2), (2, 4), (4, 2)])
@pytest.mark.parametrize("likeness", [0.0, 0.9, 1.0])
def test_a_round_has_the_distribution_of_the_target_exactly(vocab_size, n, likeness):
    prefixes = [x for k in range(n + 1) for x in itertools.product(range(vocab_size), repeat=k)]
    p = {x: distribution(i, vocab_size) for i, x in enumerate(prefixes)}
    q = {
        x: likeness * p[x] + (1 - likeness) * distribution(999 + i, vocab_size)
        for i, x in enumerate(prefixes)
    }
    got = texts_of_a_round(p, q, n, vocab_size)
    for text, probability in got.items():
        expected = math.prod(p[text[:i]][token].item() for i, token in enumerate(text))
        assert probability == pytest.approx(expected, abs=1e-13)


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_the_next_distribution_is_one(seed, n):
    p, q = distribution(seed, n + 1, 5).float(), distribution(seed + 1, n, 5).float()
    if seed % 3 == 0:
        q = (p[:n] * (1 + 1e-7)).roll(1, dims=-1).roll(-1, dims=-1)  # alike up to rounding
    generator = torch.Generator().manual_seed(seed)
    guesses = torch.multinomial(q, 1, generator=generator).squeeze(1)
    count, following = speculative_accept(p, q, guesses, torch.rand(n, generator=generator))
    assert isinstance(count, int)
    assert 0 <= count <= n
    assert (following >= 0).all()
    assert following.sum().item() == pytest.approx(1, abs=1e-5)
    if count < n:
        assert following[guesses[count]] == 0 or torch.equal(following, p[count])


def test_equal_distributions_that_rounding_rejects_leave_no_nan():
    p, q = torch.tensor([[0.25, 0.75], [0.5, 0.5]]), torch.tensor([[0.25000003, 0.75]])
    count, following = speculative_accept(p, q, torch.tensor([0]), torch.tensor([0.99999997]))
    assert count == 0
    assert torch.equal(following, p[0])


def test_no_guess_leaves_the_target_alone():
    p = distribution(0, 1, 5)
    count, following = speculative_accept(p, p[:0], torch.tensor([], dtype=torch.long), torch.rand(0))
    assert count == 0
    assert torch.equal(following, p[0])


@pytest.mark.parametrize(
    "shapes", [((3, 5), (3, 5), 3), ((4, 5), (3, 6), 3), ((4, 5), (2, 5), 3), ((4, 5), (3, 5), 2)], ids=str
)
def test_the_rule_rejects_shapes(shapes):
    p, q, n = shapes
    with pytest.raises(ValueError, match="one vocabulary, and the large one also looks beyond"):
        speculative_accept(
            torch.ones(p) / 5, torch.ones(q) / 5, torch.zeros(3, dtype=torch.long), torch.rand(n)
        )


# --- the loop, greedy


@pytest.mark.slow
@pytest.mark.parametrize("position", EACH_POSITION)
@pytest.mark.parametrize("num_draft", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2)), 5])
@pytest.mark.parametrize("draft", ["itself", "another", "smaller"])
def test_greedy_is_the_targets_own_text(position, num_draft, draft):
    target = decoder(position)
    drafts = {"itself": target, "another": decoder(position, seed=1), "smaller": decoder("alibi", layers=1)}
    for seed, n in ((0, 1), (1, 9), (2, 14)):
        prompt = draw_tokens(1, 4, seed)
        got = speculative_generate(target, drafts[draft], prompt, n, num_draft)
        assert torch.equal(got, generate(target, prompt, n))


def test_greedy_with_a_window_and_without_caches():
    target, draft, prompt = decoder("rope", 3), decoder("rope", 4, seed=1), draw_tokens(1, 7)
    expected = generate(target, prompt, 12)
    assert torch.equal(speculative_generate(target, draft, prompt, 12), expected)
    plain = [lambda tokens, model=model: model(tokens) for model in (target, draft)]
    assert torch.equal(speculative_generate(*plain, prompt, 12), expected)


@pytest.mark.parametrize(
    ("n", "num_draft"), [(1, 4), (5, 4), (6, 4), (12, 3), (13, 3), (7, 1), (6, 9), (0, 2)]
)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_perfect_draft_takes_the_fewest_calls(n, num_draft, temperature):
    target, draft = Counted(decoder()), Counted(decoder())
    generator = torch.Generator().manual_seed(0)
    speculative_generate(target, draft, draw_tokens(1, 4), n, num_draft, temperature, generator)
    assert len(target.read) == math.ceil(n / (num_draft + 1))
    if n > 1:
        k = min(num_draft, n - 1)
        assert target.read[0] == 4 + k
        assert all(count <= num_draft + 1 for count in target.read[1:])
        assert draft.read[:k] == [4] + [1] * (k - 1)
        assert set(draft.read[k:]) <= {1, 2}  # its last guess, which it has not read, and the target's token


class Opposite:
    """A draft whose guesses never stand at temperature 0."""

    def __init__(self, model):
        self.model, self.new_cache = model, model.new_cache

    def __call__(self, tokens, cache):
        return -self.model(tokens, cache)


def test_a_draft_that_is_always_wrong_costs_one_call_per_token():
    target, prompt = Counted(decoder()), draw_tokens(1, 4)
    got = speculative_generate(target, Opposite(decoder()), prompt, 9, num_draft=3)
    assert torch.equal(got, generate(decoder(), prompt, 9))
    assert target.read == [4 + 3] + [1 + 3] * 5 + [1 + 2, 1 + 1, 1]


class Watched:
    """A model whose cache must hold what the text says: it is asked with all that it has read."""

    def __init__(self, model):
        self.model, self.caches = model, []

    def new_cache(self, batch, max_len, kind):
        assert kind == "preallocated"
        cache = self.model.new_cache(batch, max_len, kind)
        cache.text = torch.empty(batch, 0, dtype=torch.long)
        self.caches.append(cache)
        return cache

    def __call__(self, tokens, cache):
        cache.text = torch.cat([cache.text[:, : cache.length], tokens], dim=1)
        logits = self.model(tokens, cache)
        torch.testing.assert_close(logits, self.model(cache.text)[:, -tokens.shape[1] :], rtol=0, atol=1e-10)
        return logits


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("temperature", [0.0, 1.0, 3.0])
def test_both_caches_hold_the_text_and_nothing_else(temperature, seed):
    target, draft = Watched(decoder("rope")), Watched(decoder("rope", layers=1))
    generator = torch.Generator().manual_seed(seed)
    tokens = speculative_generate(target, draft, draw_tokens(1, 4), 15, 3, temperature, generator)
    assert tokens.shape == (1, 19)
    (target_cache,), (draft_cache,) = target.caches, draft.caches
    assert target_cache.length == 18  # all but the last token
    assert torch.equal(target_cache.text[:, :18], tokens[:, :18])
    assert draft_cache.length <= 18
    assert torch.equal(draft_cache.text[:, : draft_cache.length], tokens[:, : draft_cache.length])


# --- the loop, sampling


class Bigrams:
    """Logits by the last token, with a cache that counts: fast enough to be drawn from thousands of times."""

    def __init__(self, seed, vocab_size=4):
        generator = torch.Generator().manual_seed(seed)
        self.logits = 1.2 * torch.randn(vocab_size, vocab_size, generator=generator, dtype=torch.float64)

    class Cache:
        length = 0

        def truncate(self, length):
            assert 0 <= length <= self.length
            self.length = length

    def new_cache(self, batch, max_len, kind):
        return self.Cache()

    def __call__(self, tokens, cache):
        cache.length += tokens.shape[1]
        return self.logits[tokens]


def statistic(counts, p):
    """Compare counts with probabilities: the chance that the right ones differ as much."""
    expected = p * counts.sum()
    return stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(p) - 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("temperature", "options"), [(0.7, {}), (1.4, {"top_k": 3}), (1.0, {"top_p": 0.8})], ids=str
)
def test_samples_have_the_distribution_of_the_target(temperature, options):
    target, draft, n = Bigrams(0), Bigrams(1), 4
    generator = torch.Generator().manual_seed(0)
    prompt, counts = torch.tensor([[2]]), np.zeros(4**n)
    for _ in range(1500):
        tokens = speculative_generate(target, draft, prompt, n, 2, temperature, generator, **options)
        counts[int((tokens[0, 1:] * torch.tensor([64, 16, 4, 1])).sum())] += 1

    def exact(model):
        p = token_probabilities(model.logits, temperature, **options).numpy()
        joint = p[2]
        for _ in range(n - 1):
            joint = (joint.reshape(-1, 4, 1) * p).ravel()
        return joint

    # Every margin of two neighbouring tokens, each at a false-alarm rate of 1e-7.
    for first in range(n - 1):

        def margin(x, first=first):
            axes = tuple(a for a in range(n) if a not in (first, first + 1))
            return x.reshape((4,) * n).sum(axes).ravel()

        right, wrong, seen = margin(exact(target)), margin(exact(draft)), margin(counts)
        assert seen[right == 0].sum() == 0
        assert statistic(seen[right > 0], right[right > 0]) > 1e-7
        assert wrong[seen > 0].min() == 0 or statistic(seen, np.maximum(wrong, 1e-9)) < 1e-12, "no power"


@pytest.mark.slow
def test_draws_come_from_the_generator_alone():
    target, draft, prompt = decoder(), decoder(seed=1), draw_tokens(1, 4)
    state = torch.get_rng_state()
    texts = [
        speculative_generate(target, draft, prompt, 12, 3, 1.0, torch.Generator().manual_seed(seed))
        for seed in (0, 0, 1)
    ]
    assert torch.equal(texts[0], texts[1])
    assert not torch.equal(texts[0], texts[2])
    speculative_generate(target, draft, prompt, 12)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("batch", "num_draft"), [(2, 4), (1, 0)])
def test_bad_arguments(batch, num_draft):
    with pytest.raises(ValueError, match=r"expected one prompt \(1, T\) and 1 guess or more"):
        speculative_generate(decoder(), decoder(), draw_tokens(batch, 4), 5, num_draft)


def test_models_of_two_vocabularies():
    def wider(tokens):
        return torch.zeros(*tokens.shape, V + 1)

    with pytest.raises(ValueError, match="one vocabulary"):
        speculative_generate(lambda t: torch.zeros(*t.shape, V), wider, draw_tokens(1, 4), 5)


def test_a_state_that_cannot_go_back_is_refused():
    from tfcore.mamba import Mamba, MambaConfig

    model = Mamba(MambaConfig(vocab_size=11, d_model=8, num_layers=1))
    with pytest.raises(ValueError, match=r"got Mamba, which keeps a state that cannot go back"):
        speculative_generate(model, model, torch.tensor([[1, 2]]), 3)
