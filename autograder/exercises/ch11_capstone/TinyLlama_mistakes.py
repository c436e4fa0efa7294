"""Mistakes that people make in `TinyLlama`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

from autograder.checking.edits import wrong
from autograder.exercises.ch11_capstone.TinyLlama import EXERCISE
from autograder.exercises.ch11_capstone.TinyLlama_styles import (
    a_block_of_its_own,
    as_asked,
    as_in_transformers,
    einsum_in_groups,
    keys_turned_when_read,
)

edited = partial(wrong, EXERCISE, as_asked)
slip = partial(edited, gravity="slip")

Q, K = "split_heads(block.W_q(x), self.num_heads)", "split_heads(block.W_k(x), self.num_kv_heads)"
V = "split_heads(block.W_v(x), self.num_kv_heads)"
TURNED = "apply_rope({}, positions, self.base)"
HEAD = "rms_norm(x, self.norm, self.eps) @ self.embed.weight.T"

# What turns queries and keys

wrong(
    EXERCISE,
    as_in_transformers,
    "interleaved_rotary",
    "Your rotation pairs channel 2i with 2i + 1, as Meta's own files do. These weights pair channel i with "
    "i + d/2: the first half of a head with its second half, as your apply_rope does.",
    {
        "x1 = x[..., : x.shape[-1] // 2]": "x1 = x[..., ::2]",
        "x2 = x[..., x.shape[-1] // 2 :]": "x2 = x[..., 1::2]",
        "torch.cat((-x2, x1), dim=-1)": "torch.stack((-x2, x1), dim=-1).flatten(-2)",
        "torch.cat((freqs, freqs), dim=-1)": "freqs.repeat_interleave(2, dim=-1)",
    },
    gravity="slip",
)

wrong(
    EXERCISE,
    einsum_in_groups,
    "turned_the_other_way",
    "You rotate by minus the angle, so a key before the query looks like a key after it. Rotate by position "
    "* base ** (-2i / d).",
    {"angles = places[:, None] * rates": "angles = -places[:, None] * rates"},
    gravity="slip",
)

edited(
    "keys_not_turned",
    "You rotate queries but not keys, so a score depends on the place itself instead of the distance. Rotate "
    "both: k = apply_rope(k, positions, self.base).",
    {TURNED.format(K): K},
)

edited(
    "values_turned_too",
    "You rotate values like keys. A rotation puts distance into scores; values stay as they are. Rotate "
    "only q and k.",
    {"v = " + V: "v = " + TURNED.format(V)},
)

edited(
    "nothing_is_turned",
    "You rotate no query and no key, so the order of the earlier tokens is lost. Pass q and k through "
    "apply_rope with their positions.",
    {TURNED.format(Q): Q, TURNED.format(K): K},
)

edited(
    "turned_before_the_heads_are_split",
    "You rotate the whole width before you split it into heads, so a channel is paired with a channel of "
    "another head, at another rate. Split first, then rotate each head.",
    {
        TURNED.format(Q): ("split_heads(apply_rope(block.W_q(x), positions, self.base), self.num_heads)"),
        TURNED.format(K): ("split_heads(apply_rope(block.W_k(x), positions, self.base), self.num_kv_heads)"),
    },
)

slip(
    "base_ignored",
    "Every model rotates with base 10,000, whatever `base` is. Pass it on: apply_rope(..., self.base).",
    {
        "self.num_heads), positions, self.base)": "self.num_heads), positions)",
        "self.num_kv_heads), positions, self.base)": "self.num_kv_heads), positions)",
    },
)

# What a cache has seen

slip(
    "positions_from_zero",
    "With a cache, the new tokens are numbered from 0 again. They come after all that the cache holds: "
    "positions start at cache[0].length.",
    {"torch.arange(start, start + T, device=tokens.device)": "torch.arange(T, device=tokens.device)"},
)

slip(
    "position_after_the_update",
    "The length of the cache is read in each block, after the first has written: from the second block on "
    "positions are too large. Read it once, before the blocks.",
    {
        "            h = rms_norm(x, block.norm_attention, self.eps)\n": (
            "            h = rms_norm(x, block.norm_attention, self.eps)\n"
            "            start = 0 if cache is None else cache[0].length\n"
            "            positions = torch.arange(start, start + T, device=tokens.device)\n"
        )
    },
)

slip(
    "one_cache_for_all_layers",
    "All layers write into one cache, so each reads the keys of the others. Make a cache for each block: "
    "[KVCache(...) for _ in self.blocks], not [KVCache(...)] * num_layers.",
    {
        "[KVCache(batch, self.num_kv_heads, max_len, d_head, E.dtype, E.device) for _ in self.blocks]": (
            "[\n            KVCache(batch, self.num_kv_heads, max_len * len(self.blocks), d_head, E.dtype, "
            "E.device)\n        ] * len(self.blocks)"
        ),
        "        scores = q @ k.mT": "        mask = causal_mask(q.shape[2], k.shape[2]).to(q.device)\n"
        "        scores = q @ k.mT",
    },
)

edited(
    "cache_not_filled",
    "A cache is passed, but nothing is written to it, so a later chunk sees only itself. Replace k and v "
    "by the result of cache.update(k, v).",
    {
        "        if cache is not None:\n            k, v = cache.update(k, v)\n": "",
        "        scores = q @ k.mT": "        mask = mask[:, -k.shape[2] :]\n        scores = q @ k.mT",
    },
)

slip(
    "cache_kept_in_the_model",
    "The model keeps one cache in itself: a second text continues the first. Return a new list from "
    "new_cache and use the one that forward is given.",
    {
        "        E = self.embed.weight\n        d_head": (
            "        if hasattr(self, 'kept'):\n            return self.kept\n"
            "        E = self.embed.weight\n        d_head"
        ),
        "        return [KVCache(batch, self.num_kv_heads, max_len, d_head": (
            "        max_len = 4 * max_len\n"
            "        self.kept = [KVCache(batch, self.num_kv_heads, max_len, d_head"
        ),
        "for _ in self.blocks]\n\n    def forward": "for _ in self.blocks]\n        return self.kept\n\n"
        "    def forward",
    },
)

slip(
    "no_mask_with_a_cache",
    "With a cache you leave out the mask. For a single new token that is right, but in a chunk each place "
    "sees later places. Mask T rows and start + T columns: causal_mask(T, start + T).",
    {
        "causal_mask(T, start + T).to(tokens.device)": (
            "causal_mask(T, start + T).to(tokens.device)\n"
            "        if cache is not None:\n"
            "            mask = torch.ones_like(mask)"
        )
    },
)

slip(
    "mask_from_the_top_left",
    "Your mask lets the first new token see only the first token of the text. Let the last row see all: new "
    "token i is at place start + i. Use causal_mask(T, start + T).",
    {
        "causal_mask(T, start + T).to(tokens.device)": (
            "torch.ones(T, start + T, dtype=torch.bool, device=tokens.device).tril()"
        )
    },
)

wrong(
    EXERCISE,
    keys_turned_when_read,
    "positions_of_the_new_tokens_for_all_keys",
    "You rotate the keys when they are read, and the queries as if the text began with the new tokens. A "
    "query after 5 tokens is at place 5: use that.",
    {"positions[-T:]": "positions[:T]"},
    gravity="slip",
)

slip(
    "keys_turned_twice",
    "You rotate the keys from the cache once more, although they were rotated before they were stored. "
    "Rotate only the new keys, before the update.",
    {
        "            k, v = cache.update(k, v)\n": (
            "            k, v = cache.update(k, v)\n"
            "            k = apply_rope(k, torch.arange(k.shape[2], device=k.device), self.base)\n"
        )
    },
)

slip(
    "turned_after_the_update",
    "You rotate all keys after the update, the old keys too, by the positions of the new tokens. Rotate "
    "the new keys with apply_rope, then store them.",
    {
        TURNED.format(K): K,
        "        num_groups = ": "        k = apply_rope(k, positions, self.base)\n        num_groups = ",
    },
)

slip(
    "cache_in_float32",
    "Your caches are float32, whatever the weights are. Pass on the dtype of a weight: KVCache(..., "
    "E.dtype, E.device).",
    {"E.dtype, E.device": "device=E.device"},
)

slip(
    "cache_on_the_cpu",
    "Your caches are on the cpu, whatever the weights are on. Pass on the device of a weight: KVCache(..., "
    "E.dtype, E.device).",
    {"E.dtype, E.device": "E.dtype"},
)

# Attention

edited(
    "no_mask",
    "Every place sees the whole text, including what it should predict. Hide the future: "
    "scores.masked_fill(~mask, -torch.inf) before the softmax.",
    {"scores.masked_fill(~mask, -torch.inf)": "scores"},
    gravity="useless",
)

edited(
    "mask_inverted",
    "The mask hides the past and shows the future. True means may attend: fill where the mask is False, "
    "masked_fill(~mask, -torch.inf).",
    {"~mask": "mask"},
    gravity="useless",
)

slip(
    "kv_heads_tiled",
    "The shared heads are repeated as a whole: 0, 1, 0, 1. Query heads 0 and 1 share head 0 of the keys, so "
    "copies of a head are adjacent: 0, 0, 1, 1, as repeat_kv makes them.",
    {
        "repeat_kv(k, num_groups), repeat_kv(v, num_groups)": (
            "k.repeat(1, num_groups, 1, 1), v.repeat(1, num_groups, 1, 1)"
        )
    },
)

slip(
    "values_tiled",
    "Keys are repeated head by head, 0, 0, 1, 1, and values as a whole, 0, 1, 0, 1. A query head must read "
    "the values that belong to its keys: use repeat_kv for both.",
    {"repeat_kv(v, num_groups)": "v.repeat(1, num_groups, 1, 1)"},
)

edited(
    "as_many_groups_as_heads",
    "You repeat keys and values a wrong number of times. Copy each head num_heads // num_kv_heads times: "
    "that many query heads share it.",
    {"num_groups = self.num_heads // self.num_kv_heads": "num_groups = self.num_kv_heads"},
)

slip(
    "scaled_by_the_width",
    "Scores are divided by the root of d_model. A dot product in a head has d_model / num_heads terms: "
    "divide by q.shape[-1] ** 0.5.",
    {"q.shape[-1] ** 0.5": "self.embed.weight.shape[1] ** 0.5"},
)

slip(
    "not_scaled",
    "Scores are not divided by the root of the width of a head. Divide by q.shape[-1] ** 0.5.",
    {" / q.shape[-1] ** 0.5": ""},
)

slip(
    "scaled_by_d_head",
    "Scores are divided by the width of a head; divide by its root, q.shape[-1] ** 0.5.",
    {"q.shape[-1] ** 0.5": "q.shape[-1]"},
)

edited(
    "softmax_over_queries",
    "The weights of a key sum to 1 over the queries. Each query shares out its attention: softmax over "
    "the last axis, the keys.",
    {"softmax(dim=-1)": "softmax(dim=-2).nan_to_num()"},
    gravity="useless",
)

edited(
    "output_not_mixed",
    "W_o is not used: the results of the heads go to the stream unchanged. End attention with "
    "block.W_o(...).",
    {"block.W_o(merge_heads(weights @ v))": "merge_heads(weights @ v)"},
)

edited(
    "heads_not_put_back",
    "The heads are joined without exchanging axes, so a place gets the numbers of other places. Join them "
    "with merge_heads, which puts time before heads.",
    {"merge_heads(weights @ v)": "(weights @ v).reshape(x.shape)"},
    gravity="useless",
)

# Norms and the stream

edited(
    "norm_after",
    "Each sum is normed, and the sublayers read the stream as it is: post-norm. Llama norms the input of a "
    "sublayer and adds to the stream itself: x + f(norm(x)).",
    {
        "            h = rms_norm(x, block.norm_attention, self.eps)\n"
        "            x = x + self.attention(block, h, positions, mask, None if cache is None else cache[i])\n"
        "            h = rms_norm(x, block.norm_ffn, self.eps)\n"
        "            x = x + swiglu(h, block.W_g.weight.T, block.W_u.weight.T, block.W_d.weight.T)\n": (
            "            x = x + self.attention(block, x, positions, mask, None if cache is None else "
            "cache[i])\n"
            "            x = rms_norm(x, block.norm_attention, self.eps)\n"
            "            x = x + swiglu(x, block.W_g.weight.T, block.W_u.weight.T, block.W_d.weight.T)\n"
            "            x = rms_norm(x, block.norm_ffn, self.eps)\n"
        )
    },
)

slip(
    "one_norm_for_both",
    "Both sublayers use norm_attention. The feed-forward network has its own: block.norm_ffn.",
    {"block.norm_ffn": "block.norm_attention"},
)

slip(
    "norms_exchanged",
    "The norms of a block are exchanged. Attention reads through norm_attention, the feed-forward network "
    "through norm_ffn.",
    {
        "block.norm_attention": "block.norm_ffn",
        "block.norm_ffn, self.eps)\n            x = x + swiglu": (
            "block.norm_attention, self.eps)\n            x = x + swiglu"
        ),
    },
)

edited(
    "attention_not_normed",
    "Attention reads the stream as it is. Let it read rms_norm(x, block.norm_attention, self.eps).",
    {"self.attention(block, h, ": "self.attention(block, x, "},
)

slip(
    "last_norm_missing",
    "The head reads the stream as it is. Norm it once more, with self.norm, before the head.",
    {"rms_norm(x, self.norm, self.eps) @": "x @"},
)

edited(
    "layer_norm",
    "Your norms subtract the mean, as LayerNorm does. RMSNorm divides by the root of the mean square and "
    "subtracts nothing: rms_norm(x, weight, eps).",
    {
        "rms_norm(x, block.norm_attention, self.eps)": (
            "F.layer_norm(x, x.shape[-1:], block.norm_attention, None, self.eps)"
        ),
        "rms_norm(x, block.norm_ffn, self.eps)": (
            "F.layer_norm(x, x.shape[-1:], block.norm_ffn, None, self.eps)"
        ),
        "rms_norm(x, self.norm, self.eps)": "F.layer_norm(x, x.shape[-1:], self.norm, None, self.eps)",
    },
)

slip(
    "eps_ignored",
    "The norms use the eps of rms_norm's own default, 1e-6, whatever `eps` is. Pass it on: rms_norm(x, "
    "weight, self.eps).",
    {
        "block.norm_attention, self.eps)": "block.norm_attention)",
        "block.norm_ffn, self.eps)": "block.norm_ffn)",
        "self.norm, self.eps)": "self.norm)",
    },
)

edited(
    "no_residual",
    "Each sublayer replaces the stream. Add what it gives: x = x + ...",
    {"x = x + self.attention(": "x = self.attention(", "x = x + swiglu(": "x = swiglu("},
    gravity="useless",
)

edited(
    "normed_stream_kept",
    "The sum begins with the normed stream, so the stream itself is lost. Give the normed stream another "
    "name, h, and add to x.",
    {"x = x + self.attention(": "x = h + self.attention(", "x = x + swiglu(": "x = h + swiglu("},
)

edited(
    "side_by_side",
    "Both sublayers read the same stream, side by side. The feed-forward network comes second: it reads "
    "the stream after attention has added to it.",
    {
        "x = x + self.attention(": "y = self.attention(",
        "            x = x + swiglu(": "            x = x + y + swiglu(",
    },
)

# The feed-forward network and the head

slip(
    "gate_and_up_exchanged",
    "W_g and W_u are exchanged. SiLU acts on the gate: SiLU(x W_g) * (x W_u).",
    {"block.W_g.weight.T, block.W_u.weight.T": "block.W_u.weight.T, block.W_g.weight.T"},
)

for name, before, function in (
    ("gelu_for_silu", "GELU", "F.gelu"),
    ("sigmoid_for_silu", "a sigmoid alone", "torch.sigmoid"),
    ("relu_for_silu", "ReLU", "torch.relu"),
):
    wrong(
        EXERCISE,
        a_block_of_its_own,
        name,
        f"The gate uses {before}. These weights were trained with SiLU, z * sigmoid(z): F.silu, as in "
        "your swiglu.",
        {"F.silu": function},
        gravity="slip",
    )

edited(
    "head_untied",
    "The head has a matrix of its own, but the published weights have none for it. Tied means one matrix: "
    "multiply by self.embed.weight.T.",
    {
        "        self.norm = nn.Parameter": (
            "        self.head = nn.Linear(d_model, vocab_size, bias=False)\n        self.norm = nn.Parameter"
        ),
        HEAD: ("self.head(rms_norm(x, self.norm, self.eps))"),
    },
)

slip(
    "head_cut_off",
    "The embedding does not learn from the head: detach() cuts it off. Use self.embed.weight itself.",
    {"@ self.embed.weight.T": "@ self.embed.weight.detach().T"},
)

slip(
    "embedding_scaled",
    "The embedded tokens are multiplied by the root of d_model, as in the first Transformer and in Gemma. "
    "Llama reads the rows as they are.",
    {"x = self.embed(tokens)\n": "x = self.embed(tokens) * self.embed.embedding_dim**0.5\n"},
)

slip(
    "probabilities",
    "You return probabilities. Return the logits themselves, without a softmax.",
    {"return " + HEAD: ("return (rms_norm(x, self.norm, self.eps) @ self.embed.weight.T).softmax(dim=-1)")},
)

edited(
    "last_place_alone",
    "You return the logits of the last place alone. Return them for each input token, (B, T, vocab_size).",
    {"return rms_norm(x, ": "return rms_norm(x[:, -1:], "},
)

slip(
    "one_block_for_all",
    "Every layer computes with the parameters of the first block. Take each block in its turn.",
    {
        "            h = rms_norm(x, block.norm_a": "            block = self.blocks[0]\n"
        "            h = rms_norm(x, block.norm_a"
    },
)

slip(
    "mask_on_the_cpu",
    "causal_mask makes its mask on the cpu. Bring it to the tokens: causal_mask(...).to(tokens.device).",
    {".to(tokens.device)": ""},
)

slip(
    "tokens_turned_in_place",
    "You transpose the caller's tokens in place. A method whose name ends with _, such as t_(), changes the "
    "tensor itself: write tokens.T.",
    {
        "        T = tokens.shape[1]\n": "        T = tokens.shape[1]\n        tokens.t_()\n",
        "self.embed(tokens)": ("self.embed(tokens).transpose(0, 1)"),
    },
)
