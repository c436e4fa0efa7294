"""Blocks: a mistake that no bank knows is told where it lies, and a working part keeps its points."""

import itertools
import re

import pytest
import torch
import torch.nn.functional as F
from ch06_answers import block, changed, decoder, normed
from exercise_bank import report_on

from autograder import exercises

WRONG = {
    "layer_norm: between least and largest": (
        "layer_norm",
        lambda x, weight, bias, eps=1e-5: (
            (x - x.amin(-1, keepdim=True))
            / (x.amax(-1, keepdim=True) - x.amin(-1, keepdim=True) + eps)
            * weight
            + bias
        ),
        "subtract its mean, then it is 0",
    ),
    "layer_norm: twice as large": (
        "layer_norm",
        lambda x, weight, bias, eps=1e-5: 2 * normed(x) * weight + bias,
        "has the variance",
    ),
    "layer_norm: over two axes from the front": (
        "layer_norm",
        lambda x, weight, bias, eps=1e-5: (
            normed(x.flatten(1)).view(x.shape) * weight + bias if x.dim() > 2 else normed(x) * weight + bias
        ),
        "comes out right when it is passed alone",
    ),
    "layer_norm: sums of squares": (
        "layer_norm",
        lambda x, weight, bias, eps=1e-5: (
            (x - x.mean(-1, keepdim=True))
            * (
                ((x * x).sum(-1, keepdim=True) - x.sum(-1, keepdim=True) ** 2 / x.shape[-1]) / x.shape[-1]
                + eps
            )
            .clamp(min=eps)
            .rsqrt()
            * weight
            + bias
        ),
        "loses the digits that count",
    ),
    "layer_norm: the bias taken off": (
        "layer_norm",
        lambda x, weight, bias, eps=1e-5: normed(x) * weight - bias,
        "the bias is subtracted; add it",
    ),
    "rms_norm: the largest": (
        "rms_norm",
        lambda x, weight, eps=1e-6: x / (x.abs().amax(-1, keepdim=True) + eps) * weight,
        "has the mean square",
    ),
    "rms_norm: the weight twice": (
        "rms_norm",
        lambda x, weight, eps=1e-6: x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight**2,
        "should be x times one number",
    ),
    "swiglu: tanh": (
        "swiglu",
        lambda x, W_g, W_u, W_d: (torch.tanh(x @ W_g) * (x @ W_u)) @ W_d,
        "yours is 0.964, as tanh gives",
    ),
    "swiglu: ReLU on the other": (
        "swiglu",
        lambda x, W_g, W_u, W_d: ((x @ W_g) * F.relu(x @ W_u)) @ W_d,
        "as ReLU gives",
    ),
    "swiglu: softmax": (
        "swiglu",
        lambda x, W_g, W_u, W_d: ((x @ W_g).softmax(-1) * (x @ W_u)) @ W_d,
        "every gate is SiLU(0) = 0 and lets nothing through",
    ),
    "swiglu: a mean over the channels": (
        "swiglu",
        lambda x, W_g, W_u, W_d: (F.silu(x @ W_g / len(W_g)) * (x @ W_u)) @ W_d,
        "(1, 2, 0) has x W_g = 3 and x W_u = 3, sums over its channels",
    ),
    "swiglu: sigmoid of x": (
        "swiglu",
        lambda x, W_g, W_u, W_d: ((x @ W_g) * torch.sigmoid(x) * (x @ W_u)) @ W_d,
        "with W_g = 2 and the other weights 1",
    ),
    "swiglu: bent once more": (
        "swiglu",
        lambda x, W_g, W_u, W_d: F.silu((F.silu(x @ W_g) * (x @ W_u)) @ W_d),
        "twice W_u should give twice y",
    ),
    "layer_norm: divided by the weight": (
        "layer_norm",
        lambda x, weight, bias, eps=1e-5: normed(x) / weight + bias,
        "the normed token is divided by the weight",
    ),
    "layer_norm: another default of eps": (
        "layer_norm",
        lambda x, weight, bias, eps=1e-3: (
            (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + eps).sqrt() * weight
            + bias
        ),
        "with eps=1e-05 passed your result is right",
    ),
    "rms_norm: another default of eps": (
        "rms_norm",
        lambda x, weight, eps=1e-2: x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight,
        "with eps=1e-06 passed your result is right",
    ),
    "swiglu: the last inner channel forgotten": (
        "swiglu",
        lambda x, W_g, W_u, W_d: (F.silu(x @ W_g) * (x @ W_u))[..., :-1] @ W_d[:-1],
        "adds nothing to y: use all d_ff of them",
    ),
    "swiglu: inner channels turned": (
        "swiglu",
        lambda x, W_g, W_u, W_d: (F.silu(x @ W_g) * (x @ W_u)) @ W_d.flip(0),
        "row 0 of W_d is multiplied by inner channel",
    ),
    "swiglu: the channels of x turned": (
        "swiglu",
        lambda x, W_g, W_u, W_d: (F.silu(x.cumsum(-1) @ W_g) * (x @ W_u)) @ W_d,
        "an inner channel is a sum over all channels of x",
    ),
    "swiglu: tokens moved by one": (
        "swiglu",
        lambda x, W_g, W_u, W_d: (F.silu(x @ W_g) * (x.roll(1, 0) @ W_u)) @ W_d,
        "work on each token alone",
    ),
    "swiglu_hidden_size: three times": (
        "swiglu_hidden_size",
        lambda d_model, multiple_of=1: 3 * d_model,
        "which leaves room for",
    ),
    "block: half of the stream": (
        "TransformerBlock",
        block(("x = x + self.attention", "x = 0.5 * x + self.attention")),
        "a pre-norm block passes x on unchanged",
    ),
    "block: dropout": (
        "TransformerBlock",
        block(("self.ffn(self.norm_ffn(x))", "F.dropout(self.ffn(self.norm_ffn(x)), 0.1)")),
        "the same call gives another result each time",
    ),
    "block: the ffn twice": (
        "TransformerBlock",
        block(("self.ffn(self.norm_ffn(x))", "2 * self.ffn(self.norm_ffn(x))")),
        "the output of `ffn` is wrong already",
    ),
    "block: the ffn in the place of attention": (
        "TransformerBlock",
        block(("self.attention(self.norm_attention(x), mask=mask)", "self.ffn(self.norm_attention(x))")),
        "the output of `attention` is lost",
    ),
    "block: names of GPT-2": (
        "TransformerBlock",
        block(("norm_attention", "ln_1")),
        "there is no parameter `norm_attention.weight`",
    ),
    "block: tokens moved by one": (
        "TransformerBlock",
        block(("self.attention(self.norm_attention(x)", "self.attention(self.norm_attention(x.roll(1, 1))")),
        "the tokens in reverse do not give the results in reverse",
    ),
    "block: the mean of all tokens taken off": (
        "TransformerBlock",
        block(("self.ffn(self.norm_ffn(x))", "self.ffn(self.norm_ffn(x) - x.mean(1, keepdim=True))")),
        "norms and ffn work on each token alone",
    ),
    "block: a mask of numbers": (
        "TransformerBlock",
        block(("mask=mask", "mask=mask if mask is None else mask.float()")),
        "the mask forbids query",
    ),
    "block: post-norm that stays large": (
        "TransformerBlock",
        block(("self.norm_ffn(x + self.ffn(x))", "2 * self.norm_ffn(x + self.ffn(x))")),
        "variance 1; yours",
    ),
    "decoder: the mean of the memory": (
        "DecoderBlock",
        decoder(("memory, memory_mask", "memory.mean(1, keepdim=True)")),
        "the output of `cross_attention` is wrong already",
    ),
    "decoder: memory_mask moved by one": (
        "DecoderBlock",
        decoder(("memory, memory_mask", "memory, None if memory_mask is None else memory_mask.roll(1, -1)")),
        "to see memory token",
    ),
    "decoder: the ffn normed twice": (
        "DecoderBlock",
        decoder(("self.ffn(self.norm_ffn(x))", "self.ffn(self.norm_ffn(self.norm_ffn(x)))")),
        "the output of `ffn` is wrong already",
    ),
    "decoder: no cross-attention": (
        "DecoderBlock",
        decoder(("self.cross_attention(self.norm_cross(x), memory, memory_mask)", "0")),
        "another memory gives the same result",
    ),
    "decoder: the first tokens of the memory": (
        "DecoderBlock",
        decoder(("memory, memory_mask", "memory[:, :1]")),
        "the memory in reverse gives another result",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "answer", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_sentence_to_act_on(name, answer, words):
    report = report_on(f"ch06_blocks/{name}", answer)
    assert not report.passed
    assert report.diagnosis is None, "the bank knows this one: take another"
    assert words in str(report), report


def test_exchanged_weights_are_named_whatever_the_gate_is_written_like():
    def swiglu(x, W_g, W_u, W_d):
        gate = x @ W_g
        return (gate * torch.sigmoid(gate) * (x @ W_d)) @ W_u

    report = report_on("ch06_blocks/swiglu", swiglu)
    assert report.diagnosis == "up_and_down_exchanged"
    assert "W_u is the second" in report.message
    assert "F.linear" not in str(report)


TRANSPOSED = {
    "swiglu": lambda x, W_g, W_u, W_d: F.linear(F.silu(F.linear(x, W_g)) * F.linear(x, W_u), W_d),
    "by .T": lambda x, W_g, W_u, W_d: (F.silu(x @ W_g.T) * (x @ W_u.T)) @ W_d.T,
}


@pytest.mark.parametrize("answer", TRANSPOSED.values(), ids=TRANSPOSED.keys())
def test_transposed_weights_are_not_taken_for_exchanged_ones(answer):
    assert report_on("ch06_blocks/swiglu", answer).diagnosis in ("weights_transposed", None)


def left_on_the_cpu(exercise, style):
    """A right style whose result is brought to the cpu."""
    declared = exercises.find(exercise)
    function = next(s for s in declared.styles if s.name == style).function
    if not isinstance(function, type):
        return lambda *given, **named: function(*given, **named).cpu()
    return type(function.__name__, (function,), {"forward": _forward_to_the_cpu(function)})


def _forward_to_the_cpu(function):
    return lambda self, *given, **named: function.forward(self, *given, **named).cpu()


STYLES = {
    "layer_norm": "step_by_step",
    "rms_norm": "rsqrt",
    "swiglu": "functional",
    "TransformerBlock": "two_branches",
    "DecoderBlock": "three_lines",
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "style"), STYLES.items())
def test_a_result_that_is_left_on_the_cpu_is_seen(name, style):
    report = report_on(f"ch06_blocks/{name}", left_on_the_cpu(name, style))
    assert [c.says for c in report.criteria if c.failure] == ["works on any device"]


@pytest.mark.slow
@pytest.mark.parametrize(("eps", "right"), [("1e-6", True), ("1e-12", True), ("0", False), ("1e-2", False)])
@pytest.mark.parametrize("norm", ["norm_attention", "norm_ffn"])
def test_a_norm_keeps_a_small_epsilon(norm, eps, right):
    made = f"self.{norm} = nn.LayerNorm(d_model"
    assert report_on("ch06_blocks/TransformerBlock", block((made, f"{made}, eps={eps}"))).passed == right


def swiglu_of(flat, back):
    """A swiglu whose tokens are made rows, and its result what came in."""

    def swiglu(x, W_g, W_u, W_d):
        rows = flat(x)
        return back((F.silu(rows @ W_g) * (rows @ W_u)) @ W_d, x)

    return swiglu


def rows(x):
    return x.view(-1, x.shape[-1])


def rms(x, eps=1e-6):
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()


VIEWS = {
    "layer_norm": lambda x, weight, bias, eps=1e-5: (normed(rows(x)) * weight + bias).reshape(x.shape),
    "rms_norm": lambda x, weight, eps=1e-6: (rms(rows(x), eps) * weight).reshape(x.shape),
    "swiglu": swiglu_of(rows, lambda y, x: y.reshape(x.shape)),
    "TransformerBlock": block(("attention(x)", "attention(x.view(-1, x.shape[-1]).view(x.shape))")),
    "DecoderBlock": decoder(("attention(x)", "attention(x.view(-1, x.shape[-1]).view(x.shape))")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_what_the_caller_passed_fails(name):
    report = report_on(f"ch06_blocks/{name}", VIEWS[name])
    assert not report.passed
    assert "view" in str(report)


def three_sizes(function):
    def unpacking(x, *weights, **more):
        _B, _T, _d = x.shape
        return function(x, *weights, **more)

    return unpacking


@pytest.mark.slow
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "swiglu"])
def test_code_that_fixes_the_number_of_axes_is_named_and_keeps_more_than_half(name):
    declared = exercises.find(name)
    report = report_on(declared.name, three_sizes(declared.styles[0].function))
    assert report.diagnosis == "unpacks_three_sizes"
    assert report.score > report.max_score / 2


WIDTHS = {
    "d_model": "as_wide_as_the_stream",
    "4 * d_model": "four_times_as_wide",
    "2 * d_model": None,
    "d_ff + 1": None,
}


@pytest.mark.slow
@pytest.mark.parametrize(("width", "named"), WIDTHS.items())
@pytest.mark.parametrize(("name", "made"), [("TransformerBlock", block), ("DecoderBlock", decoder)])
def test_another_width_than_d_ff_fails(name, made, width, named):
    layers = f"nn.Linear(d_model, {width}), nn.GELU(), nn.Linear({width}, d_model)"
    answer = made(("nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model)", layers))
    report = report_on(f"ch06_blocks/{name}", answer)
    assert not report.passed
    assert report.diagnosis == named
    assert "the parameter `ffn.0.weight` has shape" in str(report)


HEAD_0 = "{0} if {0} is None or {0}.ndim < 4 else {0}[:, -1:]"
ONE_MASK = {
    "mask": ("TransformerBlock", block(("mask=mask", f"mask={HEAD_0.format('mask')}"))),
    "self_mask": ("DecoderBlock", decoder(("mask=self_mask", f"mask={HEAD_0.format('self_mask')}"))),
    "memory_mask": ("DecoderBlock", decoder((", memory_mask)", f", {HEAD_0.format('memory_mask')})"))),
}


@pytest.mark.slow
@pytest.mark.parametrize("mask", ONE_MASK)
def test_the_mask_of_one_head_is_no_mask_for_all(mask):
    name, answer = ONE_MASK[mask]
    report = report_on(f"ch06_blocks/{name}", answer)
    assert any(c.failure and mask in c.says for c in report.criteria)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("TransformerBlock", block(("mask=mask", "mask=mask if mask is None else ~mask"))),
        ("TransformerBlock", block(("mask=mask", "mask=None"))),
        ("DecoderBlock", decoder(("mask=self_mask", "mask=self_mask if self_mask is None else ~self_mask"))),
        ("DecoderBlock", decoder(("mask=self_mask", "mask=None"))),
    ],
)
def test_a_block_without_a_working_mask_earns_less_than_half(name, answer):
    report = report_on(f"ch06_blocks/{name}", answer)
    assert 0 < report.score < report.max_score / 2


NORMS = ("norm_attention", "norm_cross", "norm_ffn")


@pytest.mark.slow
@pytest.mark.parametrize(("right", "used"), list(itertools.permutations(NORMS, 2)))
def test_one_norm_in_two_places_keeps_more_than_half_and_is_named(right, used):
    answer = changed("DecoderBlock", "named_steps", (f"self.{right}(", f"self.{used}("))
    report = report_on("ch06_blocks/DecoderBlock", answer)
    assert f"Use self.{right} for" in report.message
    assert report.diagnosis
    assert report.max_score / 2 < report.score < report.max_score


BY_THE_WEIGHT = {
    "layer_norm": lambda x, weight, bias, eps=1e-5: normed(x) * weight.abs() + bias,
    "rms_norm": lambda x, weight, eps=1e-6: x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() / weight,
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("name", "answer"), BY_THE_WEIGHT.items(), ids=BY_THE_WEIGHT.keys())
def test_no_weight_of_zero_is_divided_by(name, answer, seed):
    told = [f.broken for f in report_on(f"ch06_blocks/{name}", answer, seed).failures if f.broken]
    assert told
    assert not re.search(r"\b(nan|inf)\b", " ".join(told)), told
