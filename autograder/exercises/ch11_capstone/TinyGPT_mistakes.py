"""Mistakes that people make in `TinyGPT`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

from autograder.checking.edits import wrong
from autograder.exercises.ch11_capstone.TinyGPT import EXERCISE
from autograder.exercises.ch11_capstone.TinyGPT_styles import as_asked

edited = partial(wrong, EXERCISE, as_asked)

edited(
    "no_mask",
    "A place reads words that come after it: every place sees the whole text, including the answer. Give "
    "every block a causal mask, torch.ones(T, T, dtype=torch.bool).tril().",
    {("        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()\n"): "", ", mask": ""},
    gravity="useless",
)

edited(
    "mask_upside_down",
    "Every place sees the words after it and not those before it, so the mask is upside down. True means may "
    "attend: keep the lower triangle, tril().",
    {"tril": "triu"},
    gravity="useless",
)

edited(
    "mask_without_itself",
    "The logits are NaN. The first token may attend to nothing, and the softmax of a fully hidden row is "
    "0/0. Let a token see itself: tril(), with the diagonal.",
    {"tril()": "tril(-1)"},
    gravity="useless",
)

edited(
    "one_token_too_many",
    "A place sees the next token, which it should predict. Open the mask up to the diagonal and no "
    "further: tril(), not tril(1).",
    {"tril()": "tril(1)"},
    gravity="useless",
)

edited(
    "first_block_alone_masked",
    "With one layer no place sees what comes after it; with two layers every place does. One of the blocks "
    "works without the mask: pass it to each of them.",
    {("\n        return"): ("\n            mask = None\n        return")},
    gravity="useless",
)

edited(
    "no_positions",
    "The order of the earlier tokens changes nothing, since attention does not know the order of its keys. "
    "Add self.position.weight[:T] to the embedded tokens.",
    {
        "        self.position = nn.Embedding(max_len, d_model)\n": "",
        "        nn.init.normal_(self.position.weight, std=0.02)\n": "",
        " + self.position.weight[:T]": "",
    },
    gravity="useless",
)

edited(
    "positions_not_cut",
    "A text that is shorter than max_len fails. Take as many positions as the text has tokens: "
    "self.position.weight[:T].",
    {"[:T]": ""},
)

edited(
    "one_position_for_all",
    "The length of the text changes the logits, but the order of earlier tokens does not: all places get the "
    "position of the last one. Give each place its own row, 0 to T - 1.",
    {":T": "T - 1"},
    gravity="useless",
)

edited(
    "positions_along_the_batch",
    "The logits depend on the row in the batch, not on the order of earlier tokens: the positions run along "
    "the batch. They belong to the time axis: self.position.weight[:T] has the shape (T, d_model).",
    {"T]": " len(tokens), None]"},
    gravity="useless",
)

edited(
    "untied",
    "There are two matrices with a row for each token. Tied means one shared matrix: the logits are "
    "dot products with the embedding's rows, x @ self.embedding.weight.T.",
    {
        ("d_model)\n        nn."): (
            "d_model)\n"
            "        self.head = nn.Linear(d_model, "
            "vocab_size, bias=False)\n"
            "        nn.init.normal_(self.head.weight, "
            "std=0.02)\n"
            "        nn."
        ),
        "norm(x) @ self.embedding.weight.T": "head(self.norm(x))",
    },
    gravity="slip",
)

edited(
    "tied_by_a_copy",
    "There are two matrices with a row for each token, alike at first: from the first step of training on "
    "they differ. Assign the parameter itself, self.head.weight = self.embedding.weight, or use it in "
    "`forward`.",
    {
        ("02)\n        nn."): (
            "02)\n"
            "        self.head = nn.Linear(d_model, "
            "vocab_size, bias=False)\n"
            "        self.head.weight = "
            "nn.Parameter(self.embedding.weight.detach().c"
            "lone())\n"
            "        nn."
        ),
        "norm(x) @ self.embedding.weight.T": "head(self.norm(x))",
    },
    gravity="slip",
)

edited(
    "head_cut_off",
    "The embedding learns nothing from the logits, though it makes them. Multiply by self.embedding.weight "
    "itself, without `.detach()` or `.data`.",
    {".T": ".detach().T"},
)

edited(
    "last_place_alone",
    "You return the logits of the last place alone. Return those of every place, since each of them predicts "
    "its next token: (B, T, vocab_size).",
    {"x)": "x[:, -1])"},
    gravity="slip",
)

edited(
    "hidden_states",
    "You return a vector of d_model numbers for each place. Return a number for each token of the "
    "vocabulary: multiply by the embedding, transposed.",
    {" @ self.embedding.weight.T": ""},
)

edited(
    "probabilities",
    "You return probabilities. Return the logits, without the softmax: cross-entropy takes the softmax "
    "itself.",
    {"self.norm(x) @ self.embedding.weight.T": ("(self.norm(x) @ self.embedding.weight.T).softmax(dim=-1)")},
    gravity="slip",
)

edited(
    "large_embedding",
    "The first logits are as large as sqrt(d_model), so the first loss is far above the loss of a guess. "
    "nn.Embedding starts with standard normal numbers: start it small, std=0.02.",
    {"        nn.init.normal_(self.embedding.weight, std=0.02)\n": ""},
    gravity="slip",
)

edited(
    "one_block_again_and_again",
    "Another layer brings no parameters of its own, yet it changes the logits: one block is used again and "
    "again. Make a new Block for each place in the ModuleList.",
    {
        "Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers)": (
            "[Block(d_model, num_heads, 4 * d_model)] * num_layers"
        )
    },
)

edited(
    "a_single_block",
    "The model is the same whatever num_layers is. Make num_layers blocks.",
    {"num_layers)": "1)"},
    gravity="slip",
)

edited(
    "heads_ignored",
    "One head or several give the same logits. Pass num_heads on to each block.",
    {", num_heads, 4": ", 1, 4"},
    gravity="slip",
)

edited(
    "attention_alone",
    "A layer has too few parameters for attention and a feed-forward network. Give it both, and add both to "
    "the stream: x = block(x, mask).",
    {
        ("))\n        self."): (
            "))\n        for block in self.blocks:\n            del block.ffn, block.norm_ffn\n        self."
        ),
        "block(x": "x + block.attention(block.norm_attention(x)",
    },
)

edited(
    "stream_cut",
    "With all matrices of the layers at zero, nothing of the token is left: the sublayers replace the "
    "stream. Add to it instead, x = x + sublayer(norm(x)).",
    {"(x, mask": (".attention(block.norm_attention(x), mask)\n            x = block.ffn(block.norm_ffn(x)")},
    gravity="useless",
)

edited(
    "dropout",
    "The same tokens get different logits each time. Leave out dropout: nothing here is random.",
    {
        "self.embedding(tokens) + self.position.weight[:T]": (
            "F.dropout(self.embedding(tokens) + self.position.weight[:T], 0.1)"
        )
    },
    gravity="slip",
)

edited(
    "batch_for_time",
    "The sequences of a batch attend to each other: batch and time have changed places. Keep (B, T, "
    "d_model).",
    {
        ("        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()\n"): "",
        ", mask": ".transpose(0, 1)).transpose(0, 1",
    },
    gravity="useless",
)

edited(
    "blocks_in_a_list",
    "PyTorch finds no parameters of the layers, so they never learn. A plain list hides them: use "
    "nn.ModuleList.",
    {
        ("nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))"): (
            "[Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers)]"
        )
    },
)

edited(
    "plain_mean",
    "Every place takes the plain mean of the places up to it. Weight them: the softmax of query times key "
    "lets a place read what it looks for.",
    {
        ("blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers)"): (
            "value = nn.ModuleList(nn.Linear(d_model, "
            "d_model) for _ in range(num_layers))\n"
            "        self.ffn = nn.ModuleList(\n"
            "            nn.Sequential(nn.Linear(d_model, "
            "4 * d_model), nn.GELU(), nn.Linear(4 * "
            "d_model, d_model))\n"
            "            for _ in range(num_layers)\n"
            "        "
        ),
        (
            "mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()\n"
            "        for block in self.blocks:\n"
            "            x = block(x, mask"
        ): (
            "weights = torch.ones(T, T, "
            "device=tokens.device).tril()\n"
            "        weights = weights / "
            "weights.sum(dim=-1, keepdim=True)\n"
            "        for value, ffn in zip(self.value, "
            "self.ffn, strict=True):\n"
            "            x = x + weights @ "
            "value(F.layer_norm(x, x.shape[-1:]))\n"
            "            x = x + ffn(F.layer_norm(x, "
            "x.shape[-1:])"
        ),
    },
)

edited(
    "weights_of_places",
    "What a place reads depends on the places alone, not on the words. Compute scores from queries times "
    "keys, which both come from the words.",
    {
        ("()\n        self."): ("()\n        self.num_heads = num_heads\n        self."),
        ("))\n        self."): (
            "))\n"
            "        self.scores = "
            "nn.Parameter(torch.zeros(num_layers, "
            "num_heads, max_len, max_len))\n"
            "        self."
        ),
        (" in self.blocks:\n            x = block(x, mask"): (
            ", scores in zip(self.blocks, self.scores, "
            "strict=True):\n"
            "            weights = scores[:, :T, "
            ":T].masked_fill(~mask, "
            "-torch.inf).softmax(dim=-1)\n"
            "            v = "
            "block.W_qkv(block.norm_attention(x)).chunk(3,"
            " dim=-1)[2]\n"
            "            y = weights @ v.unflatten(-1, "
            "(self.num_heads, -1)).transpose(1, 2)\n"
            "            x = x + block.W_o(y.transpose(1, "
            "2).flatten(-2))\n"
            "            x = x + "
            "block.ffn(block.norm_ffn(x)"
        ),
    },
)

edited(
    "keys_without_queries",
    "The last place reads the same words, whatever the last word is. Let the score of a key depend on the "
    "query: q @ k.mT, a number for each pair of places.",
    {
        ("()\n        self."): ("()\n        self.num_heads = num_heads\n        self."),
        ("))\n        self."): (
            "))\n"
            "        self.score = "
            "nn.ModuleList(nn.Linear(d_model, num_heads) "
            "for _ in range(num_layers))\n"
            "        self."
        ),
        (" in self.blocks:\n            x = block(x, mask"): (
            ", score in zip(self.blocks, self.score, "
            "strict=True):\n"
            "            y = block.norm_attention(x)\n"
            "            scores = score(y).mT[:, :, "
            "None].masked_fill(~mask, -torch.inf)\n"
            "            v = block.W_qkv(y).chunk(3, "
            "dim=-1)[2].unflatten(-1, (self.num_heads, "
            "-1))\n"
            "            y = scores.softmax(dim=-1) @ "
            "v.transpose(1, 2)\n"
            "            x = x + block.W_o(y.transpose(1, "
            "2).flatten(-2))\n"
            "            x = x + "
            "block.ffn(block.norm_ffn(x)"
        ),
    },
)

edited(
    "values_are_keys",
    "Part of the matrix that makes queries, keys and values gets no gradient: one of the three is never "
    "used. Weigh the values, weights @ v, with weights from queries and keys.",
    {
        "x = block(x, mask": (
            "y = "
            "block.W_qkv(block.norm_attention(x)).unflatte"
            "n(-1, (3, block.num_heads, -1))\n"
            "            q, k = y.permute(2, 0, 3, 1, "
            "4)[:2]\n"
            "            scores = (q @ k.mT / q.shape[-1] "
            "** 0.5).masked_fill(~mask, -torch.inf)\n"
            "            x = x + "
            "block.W_o((scores.softmax(dim=-1) @ "
            "k).transpose(1, 2).flatten(-2))\n"
            "            x = x + "
            "block.ffn(block.norm_ffn(x)"
        )
    },
)

edited(
    "feed_forward_as_wide_as_the_stream",
    "The feed-forward network is not four times as wide as the stream. Give each block the hidden width 4 * "
    "d_model.",
    {"4 * ": ""},
    gravity="slip",
)

edited(
    "places_of_another_number",
    "The learned positions have more rows than max_len, so some are never read. Make one row for each place: "
    "nn.Embedding(max_len, d_model).",
    {"(max_len": "(2 * max_len"},
    gravity="slip",
)

edited(
    "last_norm_missing",
    "The stream grows with every layer, and the output layer reads it without a norm. Norm it first: "
    "self.norm(x) @ self.embedding.weight.T.",
    {"        self.norm = nn.LayerNorm(d_model)\n": "", "self.norm(x)": "x"},
    gravity="slip",
)

edited(
    "no_norms",
    "Your layers read the stream without a norm, so their outputs grow with it. Norm the stream before "
    "each sublayer, as the given Block does: x = x + attention(norm(x)).",
    {
        ("))\n        self."): (
            "))\n"
            "        for block in self.blocks:\n"
            "            block.norm_attention, "
            "block.norm_ffn = nn.Identity(), "
            "nn.Identity()\n"
            "        self."
        )
    },
    gravity="useless",
)

edited(
    "norms_over_the_batch",
    "Another sequence of the batch changes the logits of the first, and attention is not the reason: a mean "
    "or a spread is taken over the batch. Norm each place by itself, over the last axis.",
    {
        "block(x, mask": (
            "x + "
            "block.attention(F.layer_norm(x.transpose(0, "
            "2), x.shape[:1]).transpose(0, 2), mask)\n"
            "            x = x + "
            "block.ffn(F.layer_norm(x.transpose(0, 2), "
            "x.shape[:1]).transpose(0, 2)"
        )
    },
    gravity="useless",
)

edited(
    "norms_over_the_places",
    "A place sees words that come after it, whatever the mask: a mean or a spread is taken over the places. "
    "Norm each place by itself, over the last axis.",
    {
        "block(x, mask": (
            "x + block.attention(F.layer_norm(x.mT, "
            "x.shape[1:2]).mT, mask)\n"
            "            x = x + "
            "block.ffn(F.layer_norm(x.mT, x.shape[1:2]).mT"
        )
    },
    gravity="useless",
)

edited(
    "norms_without_division",
    "What the layers add grows with the stream: the norms take the mean away and do not divide by the "
    "spread. Divide as well, or use nn.LayerNorm.",
    {
        "block(x, mask": (
            "x + block.attention(x - x.mean(dim=-1, "
            "keepdim=True), mask)\n"
            "            x = x + block.ffn(x - "
            "x.mean(dim=-1, keepdim=True)"
        )
    },
    gravity="useless",
)

edited(
    "last_place_kept",
    "You return the logits of the last place alone, as an axis of size 1. Return those of every place, since "
    "each of them predicts its next token: (B, T, vocab_size).",
    {"x)": "x[:, -1:])"},
    gravity="slip",
)

edited(
    "no_activation",
    "The feed-forward network is linear, so it adds nothing that one matrix could not. Put an activation, "
    "such as GELU, between its two matrices.",
    {
        ("))\n        self."): (
            "))\n"
            "        for block in self.blocks:\n"
            "            block.ffn = "
            "nn.Sequential(block.ffn[0], block.ffn[2])\n"
            "        self."
        )
    },
)

edited(
    "positions_from_the_end",
    "When a text goes on, the logits of its beginning change: the places are numbered from the end. Number "
    "them from the beginning, self.position.weight[:T].",
    {":T": "-T:"},
)
