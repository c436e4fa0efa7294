"""The capstone: right models of any make pass, unknown mistakes are told, and what is planted holds."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exercise_bank import report_on
from torch import nn
from whole_models import LikeLlama, Written, fused, written

from autograder import exercises
from autograder.checking.candidate import local
from autograder.checking.declaration import Outcome
from autograder.exercises.ch11_capstone.facts import Model
from autograder.exercises.ch11_capstone.find_coreference_head import EXERCISE as FIND
from autograder.exercises.ch11_capstone.given import Block
from autograder.exercises.ch11_capstone.lesson import lesson, texts
from autograder.exercises.ch11_capstone.TinyGPT import BOUND, KNOWN, two_models
from tfcore.data import VOCABULARY

GPT, HEAD = "ch11_capstone/TinyGPT", "ch11_capstone/find_coreference_head"
SMALL = "        nn.init.normal_(self.embedding.weight, std=0.02)\n"
SMALL_PLACES = "        nn.init.normal_(self.position.weight, std=0.02)\n"


def changed(name, style, *edits):
    """A right answer of the bank with some of its text changed."""
    declared = exercises.find(name)
    source = next(s for s in declared.styles if s.name == style).source(declared.function_name)
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    namespace = {"torch": torch, "nn": nn, "F": F, "np": np, "math": math, "Block": Block}
    exec(source, namespace)
    return namespace[declared.function_name]


def gpt(*edits):
    return changed(GPT, "as_asked", *edits)


def head(*edits):
    return changed(HEAD, "a_table", *edits)


RIGHT = {
    "like Llama": LikeLlama,
    "written out, with ReLU and without biases": Written,
    "one matrix for queries, keys and values": fused(2),
    "an RMS norm and tanh": written(
        norm=staticmethod(lambda x: F.rms_norm(x, x.shape[-1:])), activation=torch.tanh
    ),
    "post-norm": gpt(
        (
            "x = block(x, mask)",
            "x = block.norm_attention(x + block.attention(x, mask)); x = block.norm_ffn(x + block.ffn(x))",
        )
    ),
    "an embedding with rows of length 1": gpt(("std=0.02", "std=d_model**-0.5")),
    "positions as large as torch makes them": gpt((SMALL_PLACES, "")),
    "the initial values of GPT-2": gpt(
        (
            SMALL_PLACES,
            SMALL_PLACES
            + "        for part in self.modules():\n"
            + "            if isinstance(part, nn.Linear):\n"
            + "                nn.init.normal_(part.weight, std=0.02)\n",
        )
    ),
    "logits divided by the root of the width": gpt(
        (SMALL, ""), ("return self.norm(x)", "return self.norm(x) / x.shape[-1] ** 0.5")
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("model", RIGHT.values(), ids=RIGHT.keys())
def test_a_right_model_of_any_make_passes(model):
    report = report_on(GPT, model)
    assert report.passed, report


@pytest.mark.slow
def test_the_bound_lies_between_the_best_and_who_knows_pairs_of_words():
    """Who knows which word follows which is above it; the best possible loss is below."""
    tokens = texts()
    counts = torch.zeros(tokens.max() + 1, tokens.max() + 1)
    counts.index_put_((tokens[:, :-1].flatten(), tokens[:, 1:].flatten()), torch.tensor(1.0), accumulate=True)
    chances = counts / counts.sum(dim=1, keepdim=True).clamp(min=1)
    bigrams = float(-(counts * chances.clamp(min=1e-9).log()).sum() / counts.sum())
    best = np.log(len(tokens)) / (tokens.shape[1] - 1)
    assert best < BOUND < bigrams


def examined(seed, answer):
    """What the examiner finds of somebody who answers with `answer(tokens)`, and all that it asked about."""
    examiner = lesson(np.random.default_rng(seed))[2].make()
    asked = [examiner()]
    while (following := examiner(answer(asked[-1]))) is not None:
        asked.append(following)
    return examiner.result(), asked


def zeros(tokens):
    return torch.zeros(len(tokens), len(VOCABULARY))


@pytest.mark.slow
def test_what_is_examined_is_not_taught():
    batches, _, _ = lesson(np.random.default_rng(3))
    _, asked = examined(3, zeros)
    width = batches[0].shape[1]
    held_out = {tuple(row[:width]) for row in asked[-1].tolist()}
    taught = {tuple(row) for batch in batches for row in batch.tolist()}
    assert not taught & held_out


@pytest.mark.slow
def test_an_examiner_asks_word_by_word_and_says_nothing_in_advance():
    _, asked = examined(3, zeros)
    assert [tokens.shape[1] for tokens in asked] == list(range(1, len(asked) + 1))
    for before, after in pairwise(asked):
        assert torch.equal(before, after[:, :-1])


def test_a_guess_among_all_tokens_is_examined_as_such():
    result, _ = examined(5, zeros)
    assert result["loss"] == pytest.approx(np.log(len(VOCABULARY)))


def test_the_numbers_of_words_are_others_in_another_lesson():
    first, again, other = (examined(seed, zeros)[1] for seed in (5, 5, 6))
    assert torch.equal(first[-1], again[-1])
    assert first[0].unique() != other[0].unique()  # every text begins with the same token


def test_an_examination_that_is_broken_off_has_no_result():
    examiner = lesson(np.random.default_rng(3))[2].make()
    examiner(zeros(examiner()))
    with pytest.raises(ValueError, match="broken off"):
        examiner.result()


INIT = {"vocab_size": 17, "d_model": 8, "num_heads": 2, "num_layers": 1, "max_len": 6}
TEXT = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])


def same_mask_twice(seed):
    """Return whether dropout of 0.1 uses the same mask twice in a row on 2 tokens of 8 channels."""
    torch.manual_seed(seed)
    return torch.equal(*(F.dropout(torch.ones(2, 1, 8), 0.1) for _ in range(2)))


@pytest.mark.slow
def test_dropout_that_uses_the_same_mask_twice_is_still_seen():
    (dropout,) = (a for a in exercises.find("ch11_capstone/TinyGPT").misconceptions if a.name == "dropout")
    seeds = [seed for seed in range(500) if same_mask_twice(seed)]
    assert seeds
    for seed in seeds:
        torch.manual_seed(seed)
        model = Model(local(dropout.function), INIT, "a single token")
        assert KNOWN["repeats"](model, TEXT[:, :1]) == "each time", seed


def test_facts_leave_the_state_of_torch_as_it_was():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    for fact in ("logits", "sees", "start"):
        KNOWN[fact](Model(local(gpt()), INIT, ""), TEXT)
    assert torch.equal(torch.rand(3), expected)


WEIGHTS = """
        y = x = self.embedding(tokens) + self.position.weight[:T]
        q, k, v = self.blocks[0].W_qkv(y).chunk(3, dim=-1)
        weights = ({}).masked_fill(~torch.ones(T, T).tril().bool(), -torch.inf).softmax(dim=-1)
        x = x + weights @ v
"""


def weighing(scores):
    """A model of one layer with one head, post-norm and without a feed-forward network."""
    whole = "        x = self.embedding(tokens) + self.position.weight[:T]\n"
    return gpt((whole, WEIGHTS.format(scores)), ("x = block(x, mask)", "x = block.norm_ffn(x)"))


CHOOSE = {
    "queries times keys": ("q @ k.mT", "what query and key choose"),
    "the angle between them": (
        "self.norm.weight[0] * F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT",
        "what query and key choose",
    ),
    "their distance": ("-torch.cdist(q, k)", "what query and key choose"),
    "bounded scores": ("50 * (q @ k.mT / 50).tanh()", "what query and key choose"),
    "a place's distance as well": ("q @ k.mT + torch.arange(T)", "what query and key choose"),
    "nothing": ("0 * (q @ k.mT)", "all the words before it alike"),
    "keys alone": ("k.sum(-1)[:, None].expand(-1, T, -1)", "the same words, whatever the last word is"),
    "queries alone": ("q[..., :T]", "what the last word chooses, whatever the others are"),
    "places": (
        "(torch.arange(T) * torch.ones(1, T, 1)).sin() * 1e4",
        "the same places, whatever the words are",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("scores", "chosen"), CHOOSE.values(), ids=CHOOSE.keys())
def test_what_decides_about_attention_is_found(scores, chosen):
    model = weighing(scores)
    for seed in range(8):
        for case in two_models(np.random.default_rng(seed)):
            init, text = case.args
            init = init | {"d_model": max(8, init["d_model"])}
            assert KNOWN["choice"](Model(local(model), init, ""), text) == chosen


class Table(nn.Module):
    """Remembers which word came after the last ones; what is asked later it looks up."""

    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.seen = {}

    def forward(self, tokens):
        rows = tokens.tolist()
        logits = self.embedding(tokens) @ self.embedding.weight.T
        for row, text in enumerate(rows):
            for place in range(len(text)):
                past = tuple(text[max(0, place - 3) : place + 1])
                if torch.is_grad_enabled() and place + 1 < len(text):
                    self.seen.setdefault(past, set()).add(text[place + 1])
                for word in self.seen.get(past, ()):
                    logits[row, place, word] = logits[row, place, word] + 9
        return logits


@pytest.mark.slow
def test_a_table_of_groups_of_words_has_the_points_of_an_embedding():
    """It has nothing from the lesson, since it reads nothing before it has learned."""
    report = report_on(GPT, Table)
    earned = [criterion.says for criterion in report.criteria if criterion.earned]
    assert "learns without cheating" not in earned
    assert report.score < 3


FORGED = {
    "gradients of zero": ("gradients", lambda p: torch.zeros_like(p), "gradient"),
    "gradients out of the air": ("gradients", lambda p: torch.randn_like(p), "gradient"),
    "logits of zero": ("outputs", lambda p: torch.zeros_like(p), "sees"),
    "logits out of the air": ("outputs", lambda p: torch.randn_like(p), "repeats"),
}


@pytest.mark.parametrize(("question", "forged", "fact"), FORGED.values(), ids=FORGED.keys())
def test_what_is_made_up_does_not_pass_for_a_fact(question, forged, fact):
    honest = local(gpt())

    def lying(case):
        value = honest(case).value
        if case.args[1] != question:
            return Outcome(value)
        values = value.items() if isinstance(value, dict) else enumerate(value)
        found = {name: forged(answer) for name, answer in values}
        return Outcome(found if isinstance(value, dict) else list(found.values()))

    expected = KNOWN[fact](Model(honest, INIT, ""), TEXT)
    assert KNOWN[fact](Model(lying, INIT, ""), TEXT) != expected


WRONG_GPT = {
    "values that are keys, in matrices of their own": (
        written(weighed=lambda self, weights, k, v: weights @ k),
        "a gradient reaches all but 1 of the parameters",
    ),
    "values that are keys, in one matrix": (fused(1), "rows of `qkv.0.weight`"),
    "a hidden width of d_model": (written(wide=staticmethod(lambda d: d)), "not four times as wide"),
    "a hidden width of 5 d_model": (written(wide=staticmethod(lambda d: 5 * d)), "not four times as wide"),
    "no activation": (written(activation=nn.Identity()), "The feed-forward network is linear"),
    "a position too many": (
        gpt(("nn.Embedding(max_len,", "nn.Embedding(max_len + 1,")),
        "give them max_len rows",
    ),
    "1024 positions": (gpt(("nn.Embedding(max_len,", "nn.Embedding(1024,")), "give them max_len rows"),
    "positions multiplied": (gpt((") + self.position", ") * self.position")), "is multiplied with"),
    "positions from the right": (gpt(("weight[:T]", "weight[-T:]")), "the logits of its beginning change"),
    "a mask on the cpu": (gpt((", device=tokens.device", "")), "with inputs on another device than the cpu"),
    "no norms": (written(norm=staticmethod(lambda x: x)), "Your layers read the stream without a norm"),
    "divided by the variance": (
        written(norm=staticmethod(lambda x: (x - x.mean(-1, True)) / x.var(-1, keepdim=True))),
        "what the layers add to it shrinks",
    ),
    "norms over the batch": (
        written(norm=staticmethod(lambda x: F.batch_norm(x.mT, None, None, training=True).mT)),
        "a place should see itself and every place before it",
    ),
    "a view of the tokens": (
        gpt(("self.embedding(tokens) +", "self.embedding(tokens.view(-1)).view(*tokens.shape, -1) +")),
        "view size is not compatible",
    ),
    "every second token hidden": (
        gpt((".tril()", ".tril() & (torch.arange(T) % 2 == 0)")),
        "does not see token 1",
    ),
    "time in reverse": (
        gpt(("x = self.embedding(tokens)", "x = self.embedding(tokens.flip(1))")),
        "sees token",
    ),
    "three numbers too many": (gpt(("nn.Embedding(vocab_size,", "nn.Embedding(vocab_size + 3,")), "of shape"),
    "log-probabilities of nothing": (
        gpt(("return self.norm(x) @ self.embedding.weight.T", "return None")),
        "a NoneType",
    ),
    "no embedding to learn": (
        gpt((SMALL, SMALL + "        self.embedding.weight.requires_grad_(False)\n")),
        "of the parameters",
    ),
    "two heads, whatever is asked": (
        gpt(("Block(d_model, num_heads,", "Block(d_model, d_model // d_model,")),
        "num_heads is not used",
    ),
    "the last layer twice": (
        gpt(("range(num_layers))", "range(num_layers * num_layers))")),
        "another layer adds more each time",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("model", "words"), WRONG_GPT.values(), ids=WRONG_GPT.keys())
def test_a_sentence_to_act_on(model, words):
    report = report_on(GPT, model)
    assert not report.passed
    assert words in str(report), report


@pytest.mark.slow
@pytest.mark.parametrize("last", [slice(-1, None), -1], ids=["with its axis", "without"])
def test_logits_of_the_last_place_are_told_by_their_shape_and_not_as_a_leak(last):
    class LastPlace(Written):
        def forward(self, tokens):
            return super().forward(tokens)[:, last]

    report = report_on(GPT, LastPlace)
    first = next(c.failure for c in report.criteria if c.failure)
    assert "of shape" in first.fault
    assert "last place alone" in str(report)
    assert "mask" not in str(report)
    assert report.score > 6


WRONG_HEAD = {
    "always the first": (lambda model, sentences: (0, 0), "you never run the model with a head silenced"),
    "from one": (
        head(
            (
                "return divmod(int(costs.argmax()), model.num_heads)",
                "i, j = divmod(int(costs.argmax()), model.num_heads)\n    return i + 1, j + 1",
            )
        ),
        "has no head",
    ),
    "the first head left out": (
        head(("range(model.num_heads)", "range(1, model.num_heads)")),
        "head 0 of layer 0",
    ),
    "the median of all": (
        head(("int(costs.argmax())", "int((costs == costs.median()).flatten().int().argmax())")),
        "the referent's log-probability falls by",
    ),
    "a target on the cpu": (
        changed(HEAD, "cross_entropy", (", device=logits.device", "")),
        "with inputs on another device than the cpu",
    ),
    "a number": (
        head(("return divmod(int(costs.argmax()), model.num_heads)", "return int(costs.argmax())")),
        "expected 2 results",
    ),
    "a sentence as it is": (head(("tokens[None]", "tokens")), "token ids of shape (B, T)"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("function", "words"), WRONG_HEAD.values(), ids=WRONG_HEAD.keys())
def test_a_wrong_search_is_told_in_a_sentence(function, words):
    report = report_on(HEAD, function)
    assert not report.passed
    assert words in str(report), report


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_what_is_planted_is_what_the_model_says(seed):
    """The log-probability falls by the planted cost, and the best head leads by far more than rounding."""
    for criterion, cases in FIND.draw(seed):
        for case in cases:
            lent, sentences = case.args
            model, means = lent.make(), []
            for tokens, referent in sentences:
                text = model.texts[tuple(tokens.tolist())]
                for pair in np.ndindex(*text.costs.shape):
                    said = [model(tokens[None], s)[0, -1].log_softmax(-1)[referent] for s in ([], [pair])]
                    left = min(text.whole - float(text.costs[pair]), -1e-3)
                    assert float(said[0] - said[1]) == pytest.approx(text.whole - left, abs=1e-5)
                means.append(text.costs.numpy())
            best, second = np.sort(np.mean(means, axis=0), axis=None)[[-1, -2]]
            assert best - second > 0.2, (criterion.says, case.says)


@pytest.mark.slow
def test_attention_of_the_model_sums_to_one():
    for _, cases in FIND.draw(1):
        for case in cases:
            lent, sentences = case.args
            for tokens, _ in sentences:
                weights = lent.make().attention(tokens[None])
                torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
                assert not weights.triu(1).any()
