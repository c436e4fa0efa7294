"""Blocks as published code has them get full marks, and the references are torch's own layers."""

from importlib import import_module
from types import SimpleNamespace

import pytest
import torch
from exercise_bank import NAMES, report_on
from torch import nn

from autograder import exercises
from autograder.exercises.ch06_blocks import reference
from autograder.exercises.ch06_blocks.given import MultiHeadAttention
from autograder.grading.pair import file_task
from autograder.grading.session import Limits


def llama_rms_norm(x, weight, eps=1e-6):
    """transformers' module with the weight put in."""
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    return torch.func.functional_call(LlamaRMSNorm(x.shape[-1], eps), {"weight": weight}, (x,))


def t5_layer_norm(x, weight, eps=1e-6):
    from transformers.models.t5.modeling_t5 import T5LayerNorm

    return torch.func.functional_call(T5LayerNorm(x.shape[-1], eps), {"weight": weight}, (x,))


def llama_mlp(x, W_g, W_u, W_d):
    """transformers' module, whose weights are those of nn.Linear."""
    from transformers.models.llama.modeling_llama import LlamaMLP

    d_model, d_ff = W_g.shape
    config = SimpleNamespace(hidden_size=d_model, intermediate_size=d_ff, mlp_bias=False, hidden_act="silu")
    weights = {"gate_proj.weight": W_g.T, "up_proj.weight": W_u.T, "down_proj.weight": W_d.T}
    return torch.func.functional_call(LlamaMLP(config), weights, (x,))


def llama_2_hidden_size(d_model, multiple_of=1):
    """Meta's code, in the order of its lines."""
    hidden_dim = 4 * d_model
    hidden_dim = int(2 * hidden_dim / 3)
    return multiple_of * ((hidden_dim + multiple_of - 1) // multiple_of)


def annotated_layer_norm(x, weight, bias, eps=1e-5):
    """As tutorials write it, with an unbiased variance put right."""
    d = x.size(-1)
    mean = x.mean(-1, keepdim=True)
    variance = x.var(-1, keepdim=True) * (d - 1) / d if d > 1 else torch.zeros_like(mean)
    return weight * (x - mean) / (variance + eps).sqrt() + bias


class Gpt2Parts(nn.Module):
    """What GPT2Block asks of itself, under the names of this course."""

    gradient_checkpointing = False
    ln_1 = property(lambda self: self.norm_attention)
    ln_2 = property(lambda self: self.norm_ffn)
    ln_cross_attn = property(lambda self: self.norm_cross)
    mlp = property(lambda self: self.ffn)

    def attn(self, h, attention_mask=None, **more):
        return self.attention(h, mask=attention_mask), None

    def crossattention(self, h, encoder_hidden_states=None, encoder_attention_mask=None, **more):
        return self.cross_attention(h, encoder_hidden_states, encoder_attention_mask), None


class Gpt2Block(Gpt2Parts):
    """transformers' GPT2Block; BertLayer's order for post-norm, which GPT-2 has not."""

    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        from transformers.models.gpt2.modeling_gpt2 import GPT2Block

        if self.norm == "post":
            attended = self.norm_attention(self.attention(x, mask=mask) + x)
            return self.norm_ffn(self.ffn(attended) + attended)
        return GPT2Block.forward(self, x, attention_mask=mask)


class Gpt2DecoderBlock(Gpt2Parts):
    """transformers' GPT2Block with cross-attention."""

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_cross = nn.LayerNorm(d_model)
        self.norm_ffn = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        from transformers.models.gpt2.modeling_gpt2 import GPT2Block

        masks = {"attention_mask": self_mask, "encoder_attention_mask": memory_mask}
        return GPT2Block.forward(self, x, encoder_hidden_states=memory, **masks)


PUBLISHED = {
    "layer_norm": [annotated_layer_norm],
    "rms_norm": [llama_rms_norm, t5_layer_norm],
    "swiglu": [llama_mlp],
    "swiglu_hidden_size": [llama_2_hidden_size],
    "TransformerBlock": [Gpt2Block],
    "DecoderBlock": [Gpt2DecoderBlock],
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 6])
@pytest.mark.parametrize(("name", "answer"), [(n, a) for n, every in PUBLISHED.items() for a in every])
def test_what_is_published_gets_full_marks(name, answer, seed):
    for family in ("gpt2", "llama", "t5"):  # before anything is watched, which takes time
        import_module(f"transformers.models.{family}.modeling_{family}")
    report = report_on(f"ch06_blocks/{name}", answer, seed)
    assert report.passed, report


@pytest.mark.slow
def test_the_attention_that_is_given_solves_chapter_4():
    name = "ch04_multi_head/MultiHeadAttention"
    if name not in NAMES:
        pytest.skip("chapter 4 is not there")
    report = report_on(name, MultiHeadAttention)
    assert report.passed, report


def torchs_layer(block, **more):
    """torch's encoder or decoder layer with the weights of a block."""
    kind = nn.TransformerDecoderLayer if hasattr(block, "cross_attention") else nn.TransformerEncoderLayer
    d_ff, d_model = block.ffn[0].weight.shape
    layer = kind(
        d_model, block.attention.num_heads, d_ff, dropout=0.0, activation="gelu", batch_first=True, **more
    )
    named = {"self_attn": "attention", "multihead_attn": "cross_attention"}
    with torch.no_grad():
        for theirs, ours in named.items():
            if not hasattr(layer, theirs):
                continue
            attention, own = getattr(layer, theirs), getattr(block, ours)
            for kind in ("weight", "bias"):
                joined = torch.cat([getattr(p, kind) for p in (own.W_q, own.W_k, own.W_v)])
                getattr(attention, f"in_proj_{kind}").copy_(joined)
            attention.out_proj.load_state_dict(own.W_o.state_dict())
        layer.linear1.load_state_dict(block.ffn[0].state_dict())
        layer.linear2.load_state_dict(block.ffn[2].state_dict())
    return layer


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_reference_is_torchs_encoder_layer(norm):
    torch.manual_seed(0)
    block, x = reference.TransformerBlock(12, 3, 20, norm), torch.randn(2, 5, 12)
    layer = torchs_layer(block, norm_first=norm == "pre")
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    torch.testing.assert_close(block(x, causal), layer(x, src_mask=~causal), atol=1e-5, rtol=1e-5)


def test_the_reference_is_torchs_decoder_layer():
    torch.manual_seed(0)
    block, x, memory = reference.DecoderBlock(12, 3, 20), torch.randn(2, 4, 12), torch.randn(2, 5, 12)
    layer = torchs_layer(block, norm_first=True)
    causal, padding = (
        torch.ones(4, 4, dtype=torch.bool).tril(),
        torch.tensor([[1, 1, 1, 0, 0], [1] * 5]).bool(),
    )
    got = block(x, memory, causal, padding[:, None, None])
    right = layer(x, memory, tgt_mask=~causal, memory_key_padding_mask=~padding)
    torch.testing.assert_close(got, right, atol=1e-5, rtol=1e-5)


FILE = """
from torch import nn

class TransformerBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm = norm
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm_attention, self.norm_ffn = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        if self.norm == "post":
            h = self.norm_attention(x + self.attention(x, mask=mask))
            return self.norm_ffn(h + self.ffn(h))
        h = x + self.attention(self.norm_attention(x), mask=mask)
        return h + self.ffn(self.norm_ffn(h))
"""


@pytest.mark.slow
@pytest.mark.parametrize("own", [False, True], ids=["as given", "its own"])
def test_a_plain_file_may_use_the_attention_that_is_given_or_bring_its_own(own):
    from autograder.grading import cages
    from autograder.grading.pair import Pair

    attention = exercises.find("TransformerBlock").given_source if own else ""
    with Pair(cages.strongest().tier) as pair:
        task = file_task("ch06_blocks/TransformerBlock", (attention + FILE).encode(), False, 5, Limits())
        verdict = pair.grade(task)
    assert verdict.score == 5, verdict.cells[0].report


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pre", "post", "named"),
    [
        (lambda x, h, ffn, norm: x + ffn(norm(x)), lambda x, h, ffn: x + ffn(x), "attention_lost"),
        (lambda x, h, ffn, norm: h + ffn(norm(x)), lambda x, h, ffn: h + ffn(x), "ffn_beside_attention"),
        (lambda x, h, ffn, norm: x + ffn(norm(h)), lambda x, h, ffn: x + ffn(h), "ffn_added_to_the_old_x"),
    ],
)
def test_an_ffn_that_takes_the_old_x_is_named(pre, post, named):
    class OldX(Gpt2Block):
        def forward(self, x, mask=None):
            if self.norm == "post":
                h = self.norm_attention(x + self.attention(x, mask=mask))
                return self.norm_ffn(post(x, h, self.ffn))
            h = x + self.attention(self.norm_attention(x), mask=mask)
            return pre(x, h, self.ffn, self.norm_ffn)

    report = report_on("ch06_blocks/TransformerBlock", OldX)
    assert {failure.misconception for failure in report.failures} == {named}
