"""Chapter 7: published ways are right, wrong ones are told why, and what leaks is what was planted."""

import math
import socket

import numpy as np
import pytest
import torch
from ch07_published import SEEDS, Published, cases_of, name
from exercise_bank import report_on

from autograder import exercises
from autograder.cage import wire
from autograder.checking.comparison import differs, same_form
from autograder.exercises.ch07_causal_masking import min_p
from autograder.exercises.ch07_causal_masking.filter_logits import clear_cut


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("way", [way for way in vars(Published) if "__" in way.strip("_")])
def test_published_ways_get_full_marks(way, seed):
    report = report_on(name(way.split("__")[0]), getattr(Published, way), seed)
    assert report.passed, report


def right_loss(logits, tokens, ignore_index=-100):
    return Published.next_token_loss__gpt2(logits, tokens, ignore_index)


def right_filter(logits, top_k=None, top_p=None):
    return Published.filter_logits__warpers(logits, top_k, top_p)


def leaks_by(changed, moved):
    """A search for leaks that changes and compares in its own way."""

    def find_leaks(model, tokens, vocab_size):
        before = model(tokens[None])[0]
        return {
            (i, j)
            for j in range(1, len(tokens))
            for i in range(j)
            if moved(model(changed(tokens.clone(), j, vocab_size)[None])[0][i] - before[i])
        }

    return find_leaks


def other(tokens, j, vocab_size):
    tokens[j] = (tokens[j] + 1) % vocab_size
    return tokens


def two_others(tokens, j, vocab_size):
    return other(other(tokens, j, vocab_size), (j + 1) % len(tokens), vocab_size)


def writes(choose):
    """A loop that chooses in its own way from (logits of all positions, temperature, generator)."""

    def generate(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
        tokens = prompt
        for _ in range(max_new_tokens):
            read = tokens if context_len is None else tokens[:, -context_len:]
            tokens = torch.cat([tokens, choose(model(read), temperature, generator)], dim=1)
        return tokens

    return generate


def drawn(logits, temperature, generator):
    if temperature == 0:
        return logits.argmax(dim=-1, keepdim=True)
    return torch.multinomial((logits / temperature).softmax(dim=-1), 1, generator=generator)


def gathered(places, divisor=lambda count: count.clamp(min=1), normalise=lambda x: x.logsumexp(-1, True)):
    """The loss over some of the places, with a divisor and a normaliser of its own."""

    def next_token_loss(logits, tokens, ignore_index=-100):
        ahead, targets = logits[:, :-1][:, places], tokens[:, 1:][:, places]
        keep = targets != ignore_index
        log_p = ahead - normalise(ahead)
        picked = log_p.gather(-1, targets.masked_fill(~keep, 0)[..., None])[..., 0]
        return -(picked * keep).sum() / divisor(keep.sum())

    return next_token_loss


def two_axes_only(logits, top_k=None, top_p=None):
    B, V = logits.shape
    return right_filter(logits, top_k, top_p).reshape(B, V)


def made_on_the_cpu(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
    right = exercises.find(name("generate")).styles[0].function
    tokens = right(model, prompt, max_new_tokens, temperature, generator, context_len)
    return torch.zeros(tokens.shape, dtype=tokens.dtype).copy_(tokens)


def read_from_the_cpu(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0], set()
    for j in range(1, len(tokens)):
        other = torch.tensor([(int(t) + (i == j)) % vocab_size for i, t in enumerate(tokens)])
        moved = (model(other[None])[0] - before).abs().amax(dim=-1) > 1e-4
        leaks |= {(i, j) for i in range(j) if moved[i]}
    return leaks


def cut_by(more, when=lambda temperature: True):
    """Reads as many tokens more than context_len."""

    def generate(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
        tokens = prompt
        for _ in range(max_new_tokens):
            length = context_len and (context_len + more if when(temperature) else context_len)
            logits = model(tokens if context_len is None else tokens[:, -length:])[:, -1]
            tokens = torch.cat([tokens, drawn(logits, temperature, generator)], dim=1)
        return tokens

    return generate


WRONG = {
    "a divisor of 2 at least": (
        "next_token_loss",
        gathered(slice(None), divisor=lambda count: count.clamp(min=2)),
        "divided by 2; tokens that are predicted and not ignored: 1",
    ),
    "padding that is read as a target": (
        "next_token_loss",
        lambda logits, tokens, ignore_index=-100: right_loss(logits, tokens),
        "though the token at",
    ),
    "top_p forgets top_k": (
        "filter_logits",
        lambda logits, top_k=None, top_p=None: right_filter(logits, None if top_p == 1 else top_k, top_p),
        "top_k=",
    ),
    "the first prediction left out": (
        "next_token_loss",
        gathered(slice(1, None)),
        "does not change with the logits at place 0 of sequence 0",
    ),
    "one normaliser for all places": (
        "next_token_loss",
        gathered(slice(None), normalise=lambda x: x[:, :1].logsumexp(-1, True)),
        "each place is normalised by itself",
    ),
    "a threshold of 1.2e-3": (
        "find_leaks",
        leaks_by(other, lambda d: d.abs().max() > 1.2e-3),
        "more than 1e-4 is a leak",
    ),
    "numpy's allclose": (
        "find_leaks",
        lambda model, tokens, vocab_size: {
            (i, j)
            for j in range(1, len(tokens))
            for i in range(j)
            if not np.allclose(
                model(other(tokens.clone(), j, vocab_size)[None])[0, i], model(tokens[None])[0, i]
            )
        },
        "the output at 0 moves by 0.00015; more than 1e-4 is a leak",
    ),
    "tokens made on the cpu": ("find_leaks", read_from_the_cpu, "with inputs on another device than the cpu"),
    "a text made on the cpu": ("generate", made_on_the_cpu, "with inputs on another device than the cpu"),
    "one token more of the context": ("generate", cut_by(1), "the model has positions for 3 tokens"),
    "one token less of the context": ("generate", cut_by(-1), "the last 3 tokens of the text"),
    "a context that is cut for the likeliest alone": (
        "generate",
        cut_by(9, when=lambda temperature: temperature > 0),
        "the model has positions for 3 tokens",
    ),
    "two axes, whatever comes": ("filter_logits", two_axes_only, "not enough values to unpack"),
    "a window": (
        "causal_mask",
        lambda q_len, k_len=None: (
            torch.ones(q_len, k_len or q_len)
            .tril((k_len or q_len) - q_len)
            .triu((k_len or q_len) - q_len - 1)
            .bool()
        ),
        "the key is the query's own or an earlier one",
    ),
    "a mask of numpy": (
        "causal_mask",
        lambda q_len, k_len=None: np.tri(q_len, k_len or q_len, (k_len or q_len) - q_len, dtype=bool),
        "expected a tensor of shape",
    ),
    "either or": (
        "combine_masks",
        lambda causal, padding: causal ^ padding[:, None, None],
        "your mask is True, though",
    ),
    "numbers in a mask": (
        "combine_masks",
        lambda causal, padding: (causal & padding[:, None, None]) * 2 - 1,
        "your mask holds numbers",
    ),
    "bits": (
        "next_token_loss",
        lambda logits, tokens, ignore_index=-100: right_loss(logits, tokens, ignore_index) / math.log(2),
        "each token then has the probability 1/",
    ),
    "perplexity": (
        "next_token_loss",
        lambda logits, tokens, ignore_index=-100: right_loss(logits, tokens, ignore_index).exp(),
        "give a loss of 1, not of 0",
    ),
    "one sequence of the batch": (
        "next_token_loss",
        lambda logits, tokens, ignore_index=-100: right_loss(logits[:1], tokens[:1], ignore_index),
        "sequences of the batch in reverse order",
    ),
    "divided by one too many": (
        "next_token_loss",
        lambda logits, tokens, ignore_index=-100: (
            right_loss(logits, tokens, ignore_index) * (n := (tokens[:, 1:] != ignore_index).sum()) / (n + 1)
        ),
        "divided by 3; tokens that are predicted and not ignored: 2",
    ),
    "a zero of its own": (
        "next_token_loss",
        lambda logits, tokens, ignore_index=-100: (
            right_loss(logits, tokens, ignore_index)
            if (tokens[:, 1:] != ignore_index).any()
            else torch.tensor(0.0)
        ),
        "was not computed from the logits",
    ),
    "a list of leaks": (
        "find_leaks",
        lambda model, tokens, vocab_size: sorted(
            leaks_by(other, lambda d: d.abs().max() > 1e-4)(model, tokens, vocab_size)
        ),
        "expected a set, got a list",
    ),
    "two tokens at once": (
        "find_leaks",
        leaks_by(two_others, lambda d: d.abs().max() > 1e-4),
        "you change 2 tokens or more at once",
    ),
    "no leak at all": (
        "find_leaks",
        lambda model, tokens, vocab_size: set(),
        "the model was never shown another token at 1",
    ),
    "a looser tolerance": (
        "find_leaks",
        leaks_by(other, lambda d: d.abs().max() > 2e-3),
        "more than 1e-4 is a leak",
    ),
    "a threshold of 3e-4": (
        "find_leaks",
        leaks_by(other, lambda d: d.abs().max() > 3e-4),
        "more than 1e-4 is a leak",
    ),
    "a threshold of 5e-5": (
        "find_leaks",
        leaks_by(other, lambda d: d.abs().max() > 5e-5),
        "moves by 8e-05, which is rounding",
    ),
    "a hard floor": (
        "filter_logits",
        lambda logits, top_k=None, top_p=None: right_filter(logits, top_k, top_p).clamp(min=-1e9),
        "holds -1e+09; a token that is removed holds -inf",
    ),
    "normalised": (
        "filter_logits",
        lambda logits, top_k=None, top_p=None: right_filter(logits, top_k, top_p).log_softmax(dim=-1),
        "a logit that stays is not changed",
    ),
    "one less than k": (
        "filter_logits",
        lambda logits, top_k=None, top_p=None: right_filter(logits, top_k and max(1, top_k - 1), top_p),
        "1 token of row 0 stay, not 2; top_k=2",
    ),
    "what is left over": (
        "filter_logits",
        lambda logits, top_k=None, top_p=None: right_filter(logits, top_k, top_p and max(0.01, 1 - top_p)),
        "the token that crosses it stays as well",
    ),
    "the least likely": (
        "generate",
        writes(lambda logits, t, g: drawn(-logits[:, -1], t, g)),
        "at temperature 0 the largest logit of the last position wins",
    ),
    "temperature twice": (
        "generate",
        writes(lambda logits, t, g: drawn(logits[:, -1], t * t, g)),
        "temperature squared",
    ),
    "by another route": (
        "generate",
        writes(
            lambda logits, t, g: (
                logits[:, -1] / (t or 1e-9) - torch.rand(logits[:, -1].shape, generator=g).log().neg().log()
            ).argmax(dim=-1, keepdim=True)
        ),
        "one multinomial per step over softmax(logits",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_answer_beyond_the_bank_is_explained(wrong):
    exercise, answer, told = WRONG[wrong]
    report = report_on(name(exercise), answer)
    assert not report.passed
    assert told in str(report), report


@pytest.mark.slow
def test_a_seed_of_ones_own_is_told_with_and_without_a_generator():
    def seeded(everywhere):
        def generate(model, prompt, max_new_tokens, temperature=0.0, generator=None, context_len=None):
            if generator and everywhere:
                generator.manual_seed(0)
            if generator is None:
                torch.manual_seed(0)
            right = exercises.find(name("generate")).styles[0].function
            return right(model, prompt, max_new_tokens, temperature, generator, context_len)

        return generate

    assert "Draw with the generator that is passed" in str(
        report_on(name("generate"), seeded(everywhere=True))
    )
    without = report_on(name("generate"), seeded(everywhere=False))
    assert [c.says for c in without.criteria if c.failure] == ["without a generator, another text each time"]
    assert "two calls without a generator" in str(without)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_leak_shows_with_any_other_token_and_rounding_with_none(seed):
    """Otherwise a right search would depend on which token it happens to put in."""
    reference = exercises.find(name("find_leaks")).reference
    for case in cases_of("find_leaks", seed):
        lent, tokens, vocab_size = case.args
        model = lent.make()
        before, leaks = model(tokens[None])[0], reference(model, tokens, vocab_size)
        for j in range(1, len(tokens)):
            for token in set(range(vocab_size)) - {int(tokens[j])}:
                changed = tokens.clone()
                changed[j] = token
                change = (model(changed[None])[0] - before).abs().amax(dim=-1)
                for i in range(j):
                    assert change[i] > 1.4e-4 if (i, j) in leaks else change[i] < 9e-5, (case.says, i, j)


@pytest.mark.parametrize("seed", range(20))
def test_no_rounding_decides_what_stays(seed):
    assert all(clear_cut(case) for case in cases_of("filter_logits", seed) if "tie" not in case.says)


def test_draws_do_not_depend_on_the_width_of_the_numbers():
    """So a student may take the softmax in float64, and gets the tokens of the reference."""
    for seed in range(200):
        p = torch.rand(3, 13, generator=torch.Generator().manual_seed(seed))
        narrow, wide = (
            torch.multinomial(x, 1, generator=torch.Generator().manual_seed(seed)) for x in (p, p.double())
        )
        assert torch.equal(narrow, wide)


class TestWhatThisChapterNeedsOfTheCore:
    def test_sets_travel(self):
        sent = {(0, 1), (np.int64(2), 3)}
        one, other = socket.socketpair()
        with one, other:
            wire.send(one, {"pairs": sent, "none": set()})
            arrived = wire.receive(other)
        assert arrived == {"pairs": {(0, 1), (2, 3)}, "none": set()}

    def test_a_set_that_cannot_be_one_is_refused(self):
        one, other = socket.socketpair()
        with one, other:
            header = b'{"$": "set", "items": [[1, 2]]}'
            one.sendall(len(header).to_bytes(4, "big") + header)
            with pytest.raises(wire.WireError):
                wire.receive(other)

    def test_sets_are_compared_member_by_member(self):
        assert differs({(0, 1)}, {(0, 1)}, 0) is None
        assert differs({(0, 1)}, {(0, 1), (0, 2)}, 0) == "(0, 2) is missing"
        assert differs({(2, 1)}, set(), 0) == "(2, 1) is in your set, and should not be"
        assert "expected a set" in str(differs([(0, 1)], {(0, 1)}, 0))
        assert same_form({(0, 1)}, set())
        assert not same_form([], set())

    def test_a_number_is_not_close_to_infinity(self):
        assert differs(torch.tensor([1.0]), torch.tensor([-math.inf]), 1e-6) is not None
        assert differs(torch.tensor([-math.inf]), torch.tensor([-math.inf]), 1e-6) is None


@pytest.mark.slow
def test_a_gradient_other_than_0_through_the_0_is_seen():
    def next_token_loss(logits, tokens, ignore_index=-100):
        right = Published.next_token_loss__nanogpt(logits, tokens, ignore_index)
        empty = not (tokens[:, 1:] != ignore_index).any()
        return logits.sum() - logits.sum().detach() if empty else right

    results = report_on("ch07_causal_masking/next_token_loss", next_token_loss).criteria
    assert {r.says: r.failure is None for r in results}["0 where there is nothing to predict"]
    assert not {r.says: r.failure is None for r in results}["gradients flow even if nothing is predicted"]


def test_no_rounding_decides_about_a_token_and_few_draws_are_thrown_away(monkeypatch):
    exercise, computed = exercises.find("ch07_causal_masking/min_p"), []
    monkeypatch.setattr(min_p, "parts", lambda logits, parts=min_p.parts: computed.append(1) or parts(logits))
    for seed in range(20):
        cases = [case for _, drawn in exercise.draw(seed) for case in drawn]
        assert len(computed) < 40 * len(cases)
        computed.clear()
        assert all(map(exercise.domain, cases))
        computed.clear()
