"""Chapter 4: answers that no bank knows, published layers among them, and the numbers of the notebook."""

import json
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from ch04_published import GPT2, PROJECTIONS, Bert, Llama, Published, XTransformers
from exercise_bank import report_on
from torch import nn

from autograder import exercises

SOLUTION = Path(__file__).parents[2] / "solutions" / "ch04_multi_head" / "ch04_multi_head.ipynb"


@pytest.mark.slow
@pytest.mark.parametrize("layer", [Bert, GPT2, Llama, XTransformers])
@pytest.mark.parametrize("seed", [2017, 5])
def test_published_layers_get_full_marks(layer, seed):
    pytest.importorskip("x_transformers" if layer is XTransformers else "transformers")
    report = report_on("ch04_multi_head/MultiHeadAttention", layer, seed)
    assert report.passed, f"\n{report}"


class TorchLayer(Published):
    def published(self, d_model):
        return nn.MultiheadAttention(d_model, self.num_heads, batch_first=True)

    def attend(self, layer, x, memory, mask):
        return layer(x, memory, memory)[0]


class TorchFunction(Published):
    def attend(self, layer, x, memory, mask):
        weights = torch.cat([self.W_q.weight, self.W_k.weight, self.W_v.weight])
        biases = torch.cat([self.W_q.bias, self.W_k.bias, self.W_v.bias])
        given = (x.shape[-1], self.num_heads, weights, biases, None, None, False, 0.0)
        x, memory = x.transpose(0, 1), memory.transpose(0, 1)
        out = F.multi_head_attention_forward(x, memory, memory, *given, self.W_o.weight, self.W_o.bias)
        return out[0].transpose(0, 1)


class EncoderLayer(Published):
    def published(self, d_model):
        return nn.TransformerEncoderLayer(d_model, self.num_heads, 2 * d_model, batch_first=True)

    def attend(self, layer, x, memory, mask):
        return layer(x)


@pytest.mark.slow
@pytest.mark.parametrize("layer", [TorchLayer, TorchFunction, EncoderLayer])
def test_torchs_own_layer_is_told_as_such(layer):
    report = report_on("ch04_multi_head/MultiHeadAttention", layer)
    assert report.status == "forbidden"
    assert report.score == 0


def test_the_reference_is_torchs_layer():
    torch.manual_seed(4)
    ours = exercises.find("ch04_multi_head/MultiHeadAttention").reference(12, 3)
    theirs = nn.MultiheadAttention(12, 3, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([getattr(ours, w).weight for w in PROJECTIONS[:3]]))
        theirs.in_proj_bias.copy_(torch.cat([getattr(ours, w).bias for w in PROJECTIONS[:3]]))
        theirs.out_proj.weight.copy_(ours.W_o.weight)
        theirs.out_proj.bias.copy_(ours.W_o.bias)
    x, memory = torch.randn(2, 4, 12), torch.randn(2, 5, 12)
    mask = torch.ones(4, 5, dtype=torch.bool).tril(1)
    expected, _ = theirs(x, memory, memory, attn_mask=~mask)
    torch.testing.assert_close(ours(x, memory, mask), expected)


@pytest.mark.slow
@pytest.mark.parametrize("num_kv_heads", [1, 2, 6])
@pytest.mark.parametrize("bias", [True, False])
def test_parameters_are_counted_as_transformers_has_them(num_kv_heads, bias):
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    config = llama.LlamaConfig(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=num_kv_heads, attention_bias=bias
    )
    published = sum(p.numel() for p in llama.LlamaAttention(config, layer_idx=0).parameters())
    count = exercises.find("ch04_multi_head/parameter_count").reference
    assert count(36, 6, num_kv_heads, bias) == published


def test_einops_is_a_right_style():
    einops = pytest.importorskip("einops")

    def split_heads(x, num_heads):
        if x.shape[-1] % num_heads:
            raise ValueError("the heads do not divide the width")
        return einops.rearrange(x, "b t (h d) -> b h t d", h=num_heads)

    def merge_heads(x):
        return einops.rearrange(x, "b h t d -> b t (h d)")

    def repeat_kv(x, num_groups):
        return einops.repeat(x, "b h t d -> b (h g) t d", g=num_groups)

    for function in (split_heads, merge_heads, repeat_kv):
        assert report_on(f"ch04_multi_head/{function.__name__}", function).passed


@pytest.mark.slow
def test_repeat_kv_of_a_library_is_told_as_such():
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    report = report_on("ch04_multi_head/repeat_kv", lambda x, num_groups: llama.repeat_kv(x, num_groups))
    assert report.status == "forbidden"


def split_by(cut):
    """A split_heads with another way to cut."""

    def split_heads(x, num_heads):
        if x.shape[-1] % num_heads:
            raise ValueError("the heads do not divide the width")
        return cut(x, num_heads)

    return split_heads


def attention(
    *,
    scores=lambda q, k: q @ k.mT / math.sqrt(q.shape[-1]),
    weights=lambda scores: torch.softmax(scores, dim=-1),
    heads=lambda heads: heads,
    output=lambda output, W_o: output,
):
    """A layer in which one step may be another."""

    class MultiHeadAttention(Published):
        def attend(self, layer, x, memory, mask):
            q, k, v = (self.split(t) for t in (self.W_q(x), self.W_k(memory), self.W_v(memory)))
            allowed = True if mask is None else mask
            seen = scores(q, k) if mask is None else scores(q, k).masked_fill(~mask, -1e9)
            found = heads((weights(seen) * allowed) @ v)
            return output(self.W_o(found.transpose(1, 2).flatten(2)), self.W_o)

    return MultiHeadAttention


def counted(count):
    def parameter_count(d_model, num_heads, num_kv_heads=None, bias=True):
        if d_model % num_heads:
            raise ValueError("the heads do not divide d_model")
        return count(d_model, num_heads, num_kv_heads or num_heads, bias)

    return parameter_count


WRONG = {
    "split_heads: last head first": (
        split_by(lambda x, h: x.unflatten(-1, (h, -1)).transpose(1, 2).flip(1)),
        "channel 0 of token 0 of sequence 0 belongs there",
    ),
    "split_heads: sequences and heads mixed": (
        split_by(
            lambda x, h: x.unflatten(-1, (h, -1)).permute(2, 0, 1, 3).reshape(len(x), h, x.shape[1], -1)
        ),
        "belongs there",
    ),
    "split_heads: an error returned": (
        lambda x, num_heads: (
            ValueError("no") if x.shape[-1] % num_heads else x.unflatten(-1, (num_heads, -1)).transpose(1, 2)
        ),
        "write `raise ValueError(...)`, not `return`",
    ),
    "merge_heads: channels in front": (
        lambda x: x.transpose(2, 3).reshape(x.shape[0], x.shape[2], -1),
        "of head 0 of sequence 0",
    ),
    "merge_heads: a mean": (lambda x: x.mean(dim=1), "expected shape"),
    "repeat_kv: last head first": (
        lambda x, num_groups: x.repeat_interleave(num_groups, dim=1).flip(1),
        "head 0 of the result is a copy of head",
    ),
    "repeat_kv: weighted": (
        lambda x, num_groups: x.repeat_interleave(num_groups, dim=1) * num_groups,
        "times what it should be",
    ),
    "parameter_count: squares alone": (
        counted(lambda d, h, h_kv, bias: 4 * d * d),
        "4 times a bias of 6",
    ),
    "parameter_count: biases of two heads": (
        counted(lambda d, h, h_kv, bias: 2 * d * (d + d // h * h_kv) + bias * (2 * d + 1)),
        "you count 13 numbers in biases; there are 24: 6 each for W_q and W_o, 6 each for W_k and W_v",
    ),
    "repeat_kv: zeros": (
        lambda x, num_groups: 0 * x.repeat_interleave(num_groups, dim=1),
        "number of the result is 0",
    ),
    "parameter_count: all divided": (
        counted(lambda d, h, h_kv, bias: 4 * d * (d + bias) * h_kv // h),
        "too small: ",
    ),
    "parameter_count: squared heads": (
        counted(lambda d, h, h_kv, bias: 4 * d * (d + bias) * h),
        "heads share the width",
    ),
    "MultiHeadAttention: another scale": (
        attention(scores=lambda q, k: q @ k.mT / (2 * math.sqrt(q.shape[-1]))),
        "the softmax of q . k of a head times 0.25; the factor should be 1/sqrt(d_head) = 0.5",
    ),
    "MultiHeadAttention: sigmoid": (attention(weights=torch.sigmoid), "sum to 1 over the keys"),
    "MultiHeadAttention: hardest": (
        attention(weights=lambda s: F.one_hot(s.argmax(-1), s.shape[-1]).to(s.dtype)),
        "no gradient reaches `W_q.weight`",
    ),
    "MultiHeadAttention: over the queries": (
        attention(weights=lambda s: torch.softmax(s, dim=-2)),
        "`W_q.bias` is used and moves no output",
    ),
    "MultiHeadAttention: dropout": (
        attention(weights=lambda s: F.dropout(torch.softmax(s, dim=-1), 0.1)),
        "the same call gives another result each time",
    ),
    "MultiHeadAttention: heads put together last first": (
        attention(heads=lambda heads: heads.flip(1)),
        "put together out of order",
    ),
    "MultiHeadAttention: one head for all": (
        attention(heads=lambda heads: heads[:, -1:].expand(heads.shape)),
        "heads that trade places",
    ),
    "MultiHeadAttention: a norm at the end": (
        attention(output=lambda output, W_o: F.layer_norm(output, output.shape[-1:])),
        "something else comes after W_o",
    ),
    "MultiHeadAttention: W_o twice": (
        attention(output=lambda output, W_o: W_o(output)),
        "something else comes after W_o",
    ),
    "MultiHeadAttention: a batch mixed": (
        attention(heads=lambda heads: heads + heads.mean(dim=0)),
        "the sequences of a batch do not affect each other",
    ),
    "MultiHeadAttention: always causal": (
        attention(
            scores=lambda q, k: (q @ k.mT).masked_fill(torch.ones(q.shape[2], k.shape[2]).tril() == 0, -1e9)
        ),
        "gives key 1 no weight, though there is no mask",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_told(wrong):
    answer, told = WRONG[wrong]
    report = report_on(f"ch04_multi_head/{wrong.partition(':')[0]}", answer)
    assert not report.passed
    assert told in str(report)


MASKS = {
    "inverted": lambda mask: ~mask,
    "without effect": lambda mask: None,
    "of the first sequence": lambda mask: mask[:1],
    "of the first head": lambda mask: mask[..., :1, :, :] if mask.ndim == 4 else mask,
    "of the last query": lambda mask: mask[..., -1:, :],
}


def with_mask(change):
    class MultiHeadAttention(Published):
        def attend(self, layer, x, memory, mask):
            mask = None if mask is None else change(mask)
            q, k, v = (self.split(t) for t in (self.W_q(x), self.W_k(memory), self.W_v(memory)))
            heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return self.W_o(heads.transpose(1, 2).flatten(2))

    return MultiHeadAttention


@pytest.mark.slow
@pytest.mark.parametrize("change", MASKS)
def test_a_mask_is_used_as_it_comes(change):
    report = report_on("ch04_multi_head/MultiHeadAttention", with_mask(MASKS[change]))
    assert any(c.failure and c.says == "a mask: True means may attend" for c in report.criteria)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["inverted", "without effect"])
def test_a_layer_without_a_working_mask_earns_less_than_half(change):
    report = report_on("ch04_multi_head/MultiHeadAttention", with_mask(MASKS[change]))
    assert 0 < report.score < report.max_score / 2


def with_projections(**instead):
    """A layer in which one projection stands for another."""

    class MultiHeadAttention(Published):
        def attend(self, layer, x, memory, mask):
            own = {name: getattr(self, instead.get(name, name)) for name in PROJECTIONS}
            q, k, v = (self.split(t) for t in (own["W_q"](x), own["W_k"](memory), own["W_v"](memory)))
            heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return own["W_o"](heads.transpose(1, 2).flatten(2))

    return MultiHeadAttention


@pytest.mark.slow
@pytest.mark.parametrize("other", PROJECTIONS)
@pytest.mark.parametrize("name", PROJECTIONS)
def test_each_projection_takes_part(name, other):
    report = report_on("ch04_multi_head/MultiHeadAttention", with_projections(**{name: other}))
    assert report.passed == (name == other)
    assert name == other or any(failure.hint or failure.broken for failure in report.failures)


STYLES = {
    "split_heads": "reshape_transpose",
    "merge_heads": "flatten",
    "repeat_kv": "repeat_interleave",
    "MultiHeadAttention": "fused_kernel",
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "style"), STYLES.items())
def test_a_result_that_is_left_on_the_cpu_is_seen(name, style):
    function = next(s for s in exercises.find(name).styles if s.name == style).function

    def brought(*given, **named):
        return function(*given, **named).cpu()

    def forward(self, *given, **named):
        return function.forward(self, *given, **named).cpu()

    answer = type(name, (function,), {"forward": forward}) if isinstance(function, type) else brought
    report = report_on(f"ch04_multi_head/{name}", answer)
    assert [c.says for c in report.criteria if c.failure] == ["works on any device"]


class Viewing(Published):
    def attend(self, layer, x, memory, mask):
        rows, others = x.view(-1, x.shape[-1]), memory.view(-1, x.shape[-1])
        q, k, v = (self.W_q(rows), self.W_k(others), self.W_v(others))
        q, k, v = (self.split(t.view(*s.shape)) for t, s in ((q, x), (k, memory), (v, memory)))
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


VIEWS = {
    "merge_heads": lambda x: x.movedim(1, 2).view(x.shape[0], x.shape[2], -1),
    "repeat_kv": lambda x, num_groups: (
        x.view(len(x), x.shape[1], -1).repeat_interleave(num_groups, 1).view(len(x), -1, *x.shape[2:])
    ),
    "MultiHeadAttention": Viewing,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_what_the_caller_passed_fails(name):
    report = report_on(f"ch04_multi_head/{name}", VIEWS[name])
    assert not report.passed
    assert "view" in str(report)


@pytest.mark.slow
def test_wrong_defaults_keep_more_than_half():
    class Biasless(Published):
        def __init__(self, d_model, num_heads, bias=False):
            super().__init__(d_model, num_heads, bias)

        def attend(self, layer, x, memory, mask):
            q, k, v = (self.split(t) for t in (self.W_q(x), self.W_k(memory), self.W_v(memory)))
            heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return self.W_o(heads.transpose(1, 2).flatten(2))

    report = report_on("ch04_multi_head/MultiHeadAttention", Biasless)
    assert report.diagnosis == "no_bias_by_default"
    assert report.max_score / 2 < report.score < report.max_score


@pytest.mark.parametrize("name", ["split_heads", "merge_heads"])
def test_nothing_returned_is_not_told_as_cut_off(name):
    report = report_on(f"ch04_multi_head/{name}", lambda *given: None)
    assert "got None" in str(report)
    assert "cuts the result off" not in str(report)


@pytest.fixture(scope="module")
def solved():
    """What the solution notebook has in its hands at the end."""
    pytest.importorskip("matplotlib").use("agg")
    namespace = {}
    for cell in json.loads(SOLUTION.read_text("utf8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and not source.startswith("check("):
            exec(compile(source.replace("plt.show()", "plt.close()"), cell["id"], "exec"), namespace)
    return namespace


class TestWhatTheNotebookSays:
    @pytest.mark.slow
    def test_the_cut_by_hand(self, solved):
        x = torch.arange(1, 9).view(1, 2, 4)
        assert solved["split_heads"](x, 2).tolist() == [[[[1, 2], [5, 6]], [[3, 4], [7, 8]]]]
        assert solved["merge_heads"](solved["split_heads"](x, 2)).equal(x)

    def test_the_layer_by_hand(self, solved):
        layer = solved["MultiHeadAttention"](2, 2, bias=False)
        parameters = torch.eye(2), math.log(3) * torch.eye(2), 8 * torch.eye(2), torch.eye(2)
        for name, value in zip(PROJECTIONS, parameters, strict=True):
            getattr(layer, name).weight.data.copy_(value)
        assert layer(torch.eye(2)[None])[0, 0].tolist() == pytest.approx([6, 4])
        layer.W_o.weight.data.copy_(torch.tensor([[1.0, 1], [1, -1]]))
        assert layer(torch.eye(2)[None])[0, 0].tolist() == pytest.approx([10, 2])

    def test_the_heads_by_hand(self, solved):
        heads = torch.tensor([0.0, 1]).view(1, 2, 1, 1)
        assert solved["repeat_kv"](heads, 3).flatten().tolist() == [0, 0, 0, 1, 1, 1]

    def test_the_counts_by_hand(self, solved):
        count = solved["parameter_count"]
        assert [count(6, h) for h in (1, 2, 3)] == [168] * 3
        assert [count(12, 4, 2), count(12, 4, 2, bias=False)] == [468, 432]

    def test_the_picture(self, solved):
        """The numbers of the model answer to (a): the last row of one head, and of two."""
        alone, both = solved["alone"][-1, 0], solved["both"][-1]
        assert [round(float(alone[i]), 2) for i in (4, 6, 7)] == [0.33] * 3
        assert round(float(both[0, 6]), 2) == 0.98
        assert [round(float(both[1, i]), 2) for i in (4, 7)] == [0.5] * 2

    def test_heads_that_are_exchanged(self, solved):
        """The model answer to (b): the output has its halves exchanged; columns of W_o put it right."""
        torch.manual_seed(4)
        layer, x = solved["MultiHeadAttention"](16, 2, bias=False), solved["x"]
        before, turned = layer(x), torch.arange(16).roll(8)
        for name in PROJECTIONS[:3]:
            weight = getattr(layer, name).weight
            weight.data.copy_(weight.data[turned])
        assert not torch.allclose(layer(x), before, atol=1e-3)
        layer.W_o.weight.data.copy_(layer.W_o.weight.data[:, turned])
        torch.testing.assert_close(layer(x), before)

    def test_the_table(self, solved):
        """The numbers of the model answer to (c)."""
        assert solved["counts"]["Llama 2 7B"] == (67_108_864, 67_108_864)
        assert solved["parameter_count"](4096, 64, bias=False) == 67_108_864
        count, full = solved["counts"]["Llama 3 8B"]
        assert (count, 1 - count / full) == (41_943_040, 0.375)
        assert solved["own"] == solved["counts"]["GPT-2"][0]
