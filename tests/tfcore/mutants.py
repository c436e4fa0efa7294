"""Faults that people make in Transformers, each as a change to one line of tfcore.

A row is the fault in words, where it is made, and what is written there instead of what. The text that is
replaced must stand there once, so that a row that has lost its place says so.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import linear_time_mutants
import sparse_attention_mutants

from tfcore.testing import Mutant


def rewritten(old: str, new: str) -> Callable[[Any], Any]:
    """Compile a function anew from its source, with one piece of text exchanged."""

    def patch(right: Any) -> Any:
        function = right.__func__ if isinstance(right, staticmethod | classmethod) else right
        function = inspect.unwrap(function)  # from under no_grad and its like
        source = textwrap.dedent(inspect.getsource(function))
        if source.count(old) != 1:
            raise ValueError(
                f"expected {old!r} once in {function.__qualname__}, got it {source.count(old)} times; "
                "write the row anew"
            )
        namespace: dict[str, Any] = {}
        code = compile("from __future__ import annotations\n" + source.replace(old, new), "<mutant>", "exec")
        exec(code, function.__globals__, namespace)
        wrong = namespace[function.__name__]
        return type(right)(wrong) if isinstance(right, staticmethod | classmethod) else wrong

    return patch


ROWS = [
    # attention
    ("no scale", "layers.multi_head:MultiHeadAttention.forward", "scale=self.scale,", "scale=1.0,"),
    (
        "scaled by the root of d_model",
        "layers.multi_head:MultiHeadAttention.forward",
        "scale=self.scale,",
        "scale=self.config.d_model**-0.5,",
    ),
    (
        "a memory's values in another order than its keys",
        "layers.multi_head:MultiHeadAttention.forward",
        "k, v = memory if isinstance(memory, tuple) else self._keys_and_values(memory)",
        "k, v = memory[0], memory[1].flip(2)",
    ),
    (
        "mask inverted",
        "attention.api:attention",
        '_four_axes("mask", mask, shape)',
        '_four_axes("mask", None if mask is None else ~mask, shape)',
    ),
    (
        "upper-left mask",
        "masks:default_positions",
        "torch.arange(k_len - q_len, k_len, device=device)",
        "torch.arange(q_len, device=device)",
    ),
    ("window off by one", "masks:position_mask", "distance.abs() < window", "distance.abs() <= window"),
    ("causal without the token itself", "masks:position_mask", "distance >= 0", "distance > 0"),
    (
        "grouped heads in tile order",
        "attention.tiled:_tiles",
        "k_tile = k[:, :, cols].repeat_interleave(groups, dim=1)",
        "k_tile = k[:, :, cols].repeat(1, groups, 1, 1)",
    ),
    (
        "grouped keys copied as tiles",
        "layers.heads:repeat_kv",
        "x.repeat_interleave(num_groups, dim=1)",
        "x.repeat(1, num_groups, 1, 1)",
    ),
    (
        "mask after softmax",
        "attention.explicit:attend",
        "scores = masked_scores(q, k, allowed, bias, scale, softcap)",
        "scores = masked_scores(q, k, None, bias, scale, softcap)",
    ),
    (
        "empty rows attend to everything",
        "attention.explicit:attend",
        "empty = total == 0",
        "weights = exp + (total == 0).to(exp.dtype); exp = weights; total = exp.sum(-1, keepdim=True); "
        "empty = total == 0",
    ),
    (
        "tiles merged without rescaling",
        "attention.merge:merge",
        "part_a, part_b = torch.exp(lse_a - peak), torch.exp(lse_b - peak)",
        "part_a, part_b = torch.ones_like(lse_a), torch.ones_like(lse_b)",
    ),
    (
        "softmax's Jacobian without the sum",
        "attention.tiled:_Tiled.backward",
        "(d_out @ v_tile.mT - row_sum[:, :, rows])",
        "(d_out @ v_tile.mT)",
    ),
    (
        "heads and time mixed",
        "layers.heads:merge_heads",
        "x.transpose(1, 2).flatten(2)",
        "x.reshape(len(x), x.shape[2], -1)",
    ),
    (
        "heads split without a transpose",
        "layers.heads:split_heads",
        "x.unflatten(-1, (num_heads, -1)).transpose(1, 2)",
        "x.reshape(len(x), num_heads, x.shape[1], -1)",
    ),
    (
        "scores not capped",
        "attention.explicit:masked_scores",
        "softcap * torch.tanh(scores / softcap)",
        "scores",
    ),
    (
        "gradient of the cap left out",
        "attention.tiled:_Tiled.backward",
        "d_scores * (1 - (capped / ctx.softcap) ** 2)",
        "d_scores",
    ),
    ("sinks of score 0", "attention.sinks:kept_share", "sinks.to(lse.dtype).unsqueeze(-1)", "0"),
    (
        "queries normed, keys not",
        "layers.multi_head:MultiHeadAttention.forward",
        "k = k if isinstance(memory, tuple) else _normed(self.norm_k, k)",
        "pass",
    ),
    # positions
    (
        "no RoPE",
        "layers.multi_head:MultiHeadAttention.forward",
        "q, k = order.rotation(q), order.rotation(k)",
        "pass",
    ),
    (
        "RoPE on the queries alone",
        "layers.multi_head:MultiHeadAttention.forward",
        "q, k = order.rotation(q), order.rotation(k)",
        "q = order.rotation(q)",
    ),
    (
        "the other RoPE layout",
        "positions.module:Positions.relate",
        "self.config.layout",
        '{"half": "interleaved", "interleaved": "half"}[self.config.layout]',
    ),
    (
        "RoPE turned the other way for keys",
        "positions.rotary:Rotation.__call__",
        "x * self.cos",
        "-x * self.cos",
    ),
    (
        "RoPE's angles in the type of the model",
        "positions.rotary:Rotation.__init__",
        "torch.promote_types(dtype, torch.float32)",
        "dtype",
    ),
    (
        "YaRN's ramp reversed",
        "rope_scaling:Yarn.frequencies",
        "(1 - slow) * omega + slow * omega / self.factor",
        "slow * omega + (1 - slow) * omega / self.factor",
    ),
    (
        "YaRN divides every frequency",
        "rope_scaling:Yarn.frequencies",
        "slow = self._ramp(d_rotary, base)",
        "slow = torch.ones_like(omega)",
    ),
    ("YaRN without its temperature", "rope_scaling:Yarn.temperature", "return grown + 1", "return 1.0"),
    (
        "temperature squared",
        "positions.rotary:Rotation.__init__",
        "temperature * angles.cos(), temperature * angles.sin()",
        "temperature**2 * angles.cos(), temperature**2 * angles.sin()",
    ),
    (
        "dynamic scaling without its exponent",
        "rope_scaling:Dynamic.frequencies",
        "slowest ** (d_rotary / (d_rotary - 2))",
        "slowest",
    ),
    ("LongRoPE's lists exchanged", "rope_scaling:LongRope.choose", "long, short)", "short, long)"),
    (
        "positions from 1",
        "models.stack:Stack.forward",
        "q_pos if positions is None else positions)",
        "(q_pos if positions is None else positions) + 1)",
    ),
    (
        "padding counted as positions",
        "models.stack:Stack.forward",
        "(real.cumsum(dim=1) - 1)",
        "(torch.ones_like(real).cumsum(dim=1) - 1)",
    ),
    (
        "padding attended to",
        "models.stack:Stack.forward",
        "mask = None if real is None else",
        "mask = None if True else",
    ),
    (
        "sines and cosines exchanged",
        "positions.absolute:sinusoids",
        "torch.cat([angles.sin(), angles.cos()], dim=-1)",
        "torch.cat([angles.cos(), angles.sin()], dim=-1)",
    ),
    (
        "every second frequency of ALiBi",
        "positions.alibi:alibi_slopes",
        "2 ** (-4 * h / power)",
        "2 ** (-8 * h / power)",
    ),
    ("ALiBi rewards distance", "positions.alibi:distance_penalty", "-slopes.to", "slopes.to"),
    (
        "T5's distances with the other sign",
        "positions.module:Positions.relate",
        "k_pos - q_pos.unsqueeze(-1),",
        "q_pos.unsqueeze(-1) - k_pos,",
    ),
    ("T5's decoder looks both ways", "positions.module:Positions.relate", "not self.causal", "True"),
    (
        "T5's bias dropped in cached decode",
        "positions.module:Positions.relate",
        'kind == "t5"',
        'kind == "t5" and len(q_pos) > 1',
    ),
    (
        "Shaw's distances not clipped alike",
        "positions.relative:shaw_rows",
        "clamp(-max_distance, max_distance)",
        "clamp(1 - max_distance, max_distance)",
    ),
    # blocks
    (
        "post- for pre-norm",
        "layers.block:TransformerBlock._add",
        "place = self.config.norm_place",
        'place = "post"',
    ),
    ("no residual", "layers.block:TransformerBlock._add", "else x + change", "else change"),
    (
        "residual of the normed input",
        "layers.block:TransformerBlock._add",
        "else x + change",
        "else norm(x) + change",
    ),
    (
        "one norm for both sublayers",
        "layers.block:TransformerBlock.forward",
        "self.norm_ffn, self.ffn",
        "self.norm_attention, self.ffn",
    ),
    (
        "feed-forward network after attention in a parallel block",
        "layers.block:TransformerBlock.forward",
        "else x)\n",
        "else x + attend(normed))\n",
    ),
    (
        "no norm of the output",
        "layers.block:TransformerBlock._add",
        "change = norm_output(change)",
        "pass",
    ),
    (
        "gain without the 1",
        "layers.norms:RMSNormPlusOne.forward",
        "1 + self.weight",
        "self.weight",
    ),
    ("logits not capped", "models.stack:Head.forward", "self.softcap is None", "True"),
    (
        "one rotation for all layers",
        "models.stack:Stack.forward",
        "order if window is None else window_order",
        "order",
    ),
    (
        "one window for all layers",
        "config.model:ModelConfig.with_windows",
        "window=window)",
        "window=windows[0])",
    ),
    (
        "sigmoid for SiLU",
        "layers.feed_forward:FeedForward.forward",
        "self.activation(self.W_gate(x))",
        "self.W_gate(x).sigmoid()",
    ),
    (
        "gate and up exchanged",
        "layers.feed_forward:FeedForward.forward",
        "self.activation(self.W_gate(x)) * self.W_up(x)",
        "self.activation(self.W_up(x)) * self.W_gate(x)",
    ),
    (
        "LayerNorm for RMSNorm",
        "layers.norms:norm_of",
        '"rms": nn.RMSNorm',
        '"rms": lambda d, eps: nn.LayerNorm(d, eps, bias=False)',
    ),
    ("the norms' default epsilon", "layers.norms:make_norm", "config.norm_eps", "1e-5"),
    (
        "no final norm",
        "models.stack:Stack.forward",
        "return x if self.final_norm is None else",
        "return x if True else",
    ),
    ("embeddings not scaled", "models.stack:Stack.forward", "x = x * self.config.embedding_scale", "pass"),
    ("T5's logits not scaled", "models.stack:Head.forward", "x if self.scale == 1 else x * self.scale", "x"),
    (
        "feed-forward in place of cross-attention",
        "layers.block:DecoderBlock.forward",
        "x = self._add(x, self.norm_cross, cross)\n",
        "x = self._add(x, self.norm_ffn, self.ffn)\n",
    ),
    # experts
    (
        "softmax before top-k, not normalised",
        "routing:route_top_k",
        "best.softmax(dim=-1)",
        "logits.softmax(-1).gather(-1, experts)",
    ),
    (
        "experts weighted evenly",
        "routing:route_top_k",
        "best.softmax(dim=-1)",
        "torch.full_like(best, 1 / k)",
    ),
    (
        "experts weighted by what chose them",
        "routing:Router.choose",
        "scores.gather(-1, experts)",
        "choice.gather(-1, experts)",
    ),
    (
        "the shared network left out",
        "moe:MixtureOfExperts.forward",
        "y if self.shared is None else y + self._share(x, self.shared)",
        "y",
    ),
    ("gates without a bound", "moe:MixtureOfExperts._expert", ".clamp(max=self.limit)", ""),
    # latent attention
    (
        "the latent vector not normed",
        "layers.latent:LatentAttention.forward",
        "self.norm_kv(latent)",
        "latent",
    ),
    (
        "absorbed with the scale of the latent width",
        "layers.latent:LatentAttention._absorbed",
        "scale=self.scale",
        "scale=k.shape[-1] ** -0.5",
    ),
    (
        "the shared key not rotated",
        "layers.latent:LatentAttention.forward",
        "order.rotation(q_rope), order.rotation(k_rope)",
        "order.rotation(q_rope), k_rope",
    ),
    # delta rules in a model
    (
        "queries and keys of any length",
        "layers.delta_net:GatedDeltaNet._heads",
        "x * torch.rsqrt(x.square().sum(dim=-1, keepdim=True) + 1e-6)",
        "x",
    ),
    (
        "the convolution begins anew with each call",
        "layers.delta_net:GatedDeltaNet.forward",
        "recent = cache.recent",
        "pass",
    ),
    (
        "the output's gate left out",
        "layers.multi_head:MultiHeadAttention.forward",
        "heads * self.W_gate(x).sigmoid()",
        "heads",
    ),
    # caches and generation
    (
        "cache offset forgotten",
        "cache.model:Cache.places",
        "torch.arange(self.length, end, device=device)",
        "torch.arange(num_new, device=device)",
    ),
    (
        "prefill not masked",
        "models.stack:Stack.forward",
        "causal=self.causal",
        "causal=self.causal and cache is None",
    ),
    (
        "sliding cache one too short",
        "cache.sliding:SlidingWindowCache.visible",
        "self.window - 1",
        "self.window - 2",
    ),
    (
        "a recorded step sees places that are not filled",
        "cache.static:StaticCache.note_padding",
        "self.real & (self.places(num_new, device)[1] <= self.place)",
        "self.real",
    ),
    (
        "a recorded step writes one place too early",
        "cache.static:StaticLayer.update",
        "self.values.index_copy_(2, self.place, v)",
        "self.values.index_copy_(2, self.place - 1, v)",
    ),
    (
        "compiled weights stay what they were",
        "generate.compiled:PackedStep.renew",
        "all(map(torch.equal, _tensors(self._copy), _tensors(self.model)))",
        "True",
    ),
    ("cache not taken back", "cache.preallocated:KVCache.truncate", "self.length = length", "pass"),
    ("rounded towards zero", "quantize:quantize_absmax", ".round()", ".trunc()"),
    (
        "the token that crosses p dropped",
        "generate.sampling:filter_logits",
        "before >= top_p",
        "before + probabilities >= top_p",
    ),
    (
        "acceptance the wrong way round",
        "generate.speculative:speculative_accept",
        "squeeze(1) < p_target",
        "squeeze(1) > p_target",
    ),
    (
        "the draft's last token unverified",
        "generate.speculative:speculative_accept",
        "num_accepted = int(",
        "stands[-1] = True; num_accepted = int(",
    ),
    ("residual not clamped", "generate.speculative:residual", ".clamp(min=0)", ".abs()"),
    (
        "a sibling judged as if none had been rejected before it",
        "generate.tree:accept_tree",
        "t = residual(t, p_draft[node])",
        "t = p_target[0]",
    ),
    (
        "the node's own row in place of the row after it",
        "generate.tree:accept_tree",
        "here, t = node, p_target[node + 1]",
        "here, t = node, p_target[node]",
    ),
    (
        "all nodes of a tree are judged, also those of a rejected parent",
        "generate.tree:accept_tree",
        "if parent != here:",
        "if parent < here:",
    ),
    # training
    (
        "loss without a shift",
        "losses:next_token_loss",
        "logits[:, :-1], tokens[:, 1:]",
        "logits[:, 1:], tokens[:, 1:]",
    ),
    (
        "mean of means over ragged batches",
        "train:_backward",
        "part.backward()",
        "part, number = part / number, number / number; part.backward()",
    ),
    ("biases decay", "train:decay_groups", "matrix = (", "matrix = True or ("),
    *linear_time_mutants.ROWS,
    *sparse_attention_mutants.ROWS,
]

MUTANTS = [Mutant(name, f"tfcore.{target}", rewritten(old, new)) for name, target, old, new in ROWS]
