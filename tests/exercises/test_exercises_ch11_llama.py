"""TinyLlama: the published form passes, unknown mistakes are explained, ours is there to use."""

import numpy as np
import pytest
import torch
from exercise_bank import report_on

from autograder import exercises
from autograder.cage import probes
from autograder.exercises.ch11_capstone import brought
from autograder.exercises.ch11_capstone.given_llama import LlamaBlock
from autograder.exercises.ch11_capstone.TinyLlama import as_in_tfcore, made, weights

NAME = "ch11_capstone/TinyLlama"
EXERCISE = exercises.find(NAME)
SIZES = made(6, 3, 4, 10, 19, layers=2, base=500.0, eps=1e-3)


def changed(*edits, style="as_asked"):
    """A right answer of the bank with some of its text changed."""
    source = next(s for s in EXERCISE.styles if s.name == style).source("TinyLlama")
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    namespace = {name: answer.function for name, answer in EXERCISE.brings.items()}
    namespace |= {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "LlamaBlock": LlamaBlock}
    exec(source, namespace)
    return namespace["TinyLlama"]


@pytest.mark.slow
def test_the_reference_is_transformers_llama():
    """The same parameters in transformers' own class give the same logits."""
    from transformers import LlamaConfig, LlamaForCausalLM

    own = weights(np.random.default_rng(1), SIZES)
    config = LlamaConfig(
        vocab_size=19,
        hidden_size=24,
        intermediate_size=10,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=3,
        rms_norm_eps=1e-3,
        rope_theta=500.0,
        tie_word_embeddings=True,
    )
    theirs = LlamaForCausalLM(config).eval()
    maps = {"W_q": "self_attn.q", "W_k": "self_attn.k", "W_v": "self_attn.v", "W_o": "self_attn.o"}
    maps |= {"W_g": "mlp.gate", "W_u": "mlp.up", "W_d": "mlp.down"}
    state = {"model.embed_tokens.weight": own["embed.weight"], "model.norm.weight": own["norm"]}
    state["lm_head.weight"] = own["embed.weight"]
    for i in range(2):
        layer, block = f"model.layers.{i}.", f"blocks.{i}."
        state |= {f"{layer}{place}_proj.weight": own[f"{block}{name}.weight"] for name, place in maps.items()}
        state[f"{layer}input_layernorm.weight"] = own[f"{block}norm_attention"]
        state[f"{layer}post_attention_layernorm.weight"] = own[f"{block}norm_ffn"]
    theirs.load_state_dict(state)
    text = torch.randint(19, (3, 7), generator=torch.Generator().manual_seed(2))
    logits = probes.module(EXERCISE.reference, SIZES, own, text)
    torch.testing.assert_close(logits, theirs(text).logits, rtol=1e-4, atol=1e-4)


def test_every_parameter_of_tfcore_gets_a_value():
    model = EXERCISE.reference(**SIZES)
    decoder = dict(model._decoder[0].named_parameters())
    assert as_in_tfcore(dict(model.named_parameters())).keys() == decoder.keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edits", "says"),
    [
        ([("causal_mask(T, start + T)", "causal_mask(T, start + T).roll(1, 1)")], "comes after it"),
        (
            [("x = self.embed(tokens)\n", "x = self.embed(tokens) + 0.5\n")],
            "look at the embedding, the last norm",
        ),
        (
            [
                ("h = rms_norm(x, block.norm_ffn, self.eps)", "x = rms_norm(x, block.norm_ffn, self.eps)"),
                ("swiglu(h, ", "swiglu(x, "),
            ],
            "add to the stream itself",
        ),
        ([("swiglu(h, ", "1.5 * swiglu(h, ")], "the feed-forward network adds is wrong"),
        ([("block.W_o(merge", "0.5 * block.W_o(merge")], "attention adds is wrong"),
        ([("torch.arange(start, start + T", "torch.arange(start * 2, start * 2 + T")], "with the cache"),
        (
            [("weights = scores", "weights = scores.detach()")],
            "no gradient reaches `blocks.0.W_q.weight`",
        ),
    ],
)
def test_mistakes_that_no_bank_knows_are_explained(edits, says):
    report = report_on(NAME, changed(*edits))
    assert not report.passed
    assert report.diagnosis is None
    assert any(says in failure.sentence for failure in report.failures), report


@pytest.mark.slow
def test_a_model_that_counts_its_tokens_itself_mixes_texts_up():
    counted = changed(
        ("d_head = E.shape[1] // self.num_heads\n", "d_head, self.seen = E.shape[1] // self.num_heads, 0\n"),
        (
            "start = 0 if cache is None else cache[0].length\n",
            "start = 0 if cache is None else self.seen\n        self.seen = start + T\n",
        ),
    )
    report = report_on(NAME, counted)
    (failure,) = report.failures
    assert "the model keeps something of a text in itself" in failure.sentence
    assert "then texts in turn in chunks of" in failure.call


@pytest.mark.slow
def test_a_table_that_stays_on_the_cpu_becomes_a_buffer():
    left = changed(
        (
            'self.register_buffer("turns", torch.exp(1j * angles), persistent=False)',
            "self.turns = torch.exp(1j * angles)",
        ),
        style="by_name",
    )
    (failure,) = report_on(NAME, left).failures
    assert "`self.register_buffer`" in failure.sentence


@pytest.mark.slow
def test_a_head_that_was_copied_before_the_weights_came_is_no_tied_head():
    copied = changed(
        (
            "        self.norm = nn.Parameter",
            "        self.head = self.embed.weight.detach().clone()\n        self.norm = nn.Parameter",
        ),
        ("@ self.embed.weight.T", "@ self.head.to(x).T"),
    )
    report = report_on(NAME, copied)
    assert report.score == 0
    assert "tied head" in report.failures[0].sentence


@pytest.mark.slow
def test_other_names_are_told_with_the_right_ones():
    report = report_on(NAME, changed(("self.embed", "self.embedding")))
    assert report.score == 0
    assert "there is no parameter `embed.weight`" in report.message


@pytest.mark.slow
def test_a_function_that_was_not_brought_is_named_with_its_cell():
    without = changed()
    del without.forward.__globals__["KVCache"]
    assert "Run the cell with bring(...)" in report_on(NAME, without).failures[0].sentence


@pytest.mark.slow
def test_the_call_in_a_report_shows_the_chunks():
    report = report_on(NAME, changed(("torch.arange(start, start + T", "torch.arange(T")))
    assert any(
        "then a text in chunks of [3, 1] tokens, with a cache" in failure.call for failure in report.failures
    )


@pytest.mark.slow
def test_what_is_brought_is_the_first_style_of_each():
    space = {}
    exec(EXERCISE.brought_source, space)
    assert tuple(EXERCISE.brings) == brought.NAMES
    for name in brought.NAMES:
        assert report_on(exercises.find(name).name, space[name]).passed, name


def test_no_other_exercise_brings_anything():
    assert [name for name in exercises.names() if exercises.find(name).brings] == [NAME]
