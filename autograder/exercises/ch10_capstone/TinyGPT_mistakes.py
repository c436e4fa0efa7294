"""Mistakes that people make in `TinyGPT`, each with the sentence for its author."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from autograder.exercises.ch10_capstone.given import Block
from autograder.exercises.ch10_capstone.TinyGPT import EXERCISE


@EXERCISE.misconception(
    "A place reads words that come after it: every place sees the whole text, the answer too. Give every "
    "block a causal mask, torch.ones(T, T, dtype=torch.bool).tril().",
    gravity="useless",
)
class no_mask(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "Every place sees the words after it and not those before it, so the mask is upside down. True means may "
    "attend: keep the lower triangle, tril().",
    gravity="useless",
)
class mask_upside_down(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).triu()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "The logits are NaN. The first token may attend to nothing, or is divided by 0: the softmax of a row in "
    "which all is hidden is 0/0. Let a token see itself: tril(), with the diagonal.",
    gravity="useless",
)
class mask_without_itself(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril(-1)
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "A place sees the next token, which is the one that it should predict. Open the mask up to the diagonal "
    "and no further: tril(), not tril(1).",
    gravity="useless",
)
class one_token_too_many(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril(1)
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "With one layer no place sees what comes after it; with two layers every place does. One of the blocks "
    "works without the mask: pass it to each of them.",
    gravity="useless",
)
class first_block_alone_masked(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
            mask = None
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "The order of the earlier tokens changes nothing, since attention does not know the order of its keys. "
    "Add self.position.weight[:T] to the embedded tokens.",
    gravity="useless",
)
class no_positions(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens)
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "A text that is shorter than max_len fails. Take as many positions as the text has tokens: "
    "self.position.weight[:T]."
)
class positions_not_cut(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "The order of the earlier tokens changes nothing, but the length of the text does: all places get the "
    "position of the last one. Give each place its own row, 0 to T - 1.",
    gravity="useless",
)
class one_position_for_all(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[T - 1]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "The order of the earlier tokens changes nothing, but the row of the batch does: the positions run along "
    "the batch. They belong to the time axis: self.position.weight[:T] has the shape (T, d_model).",
    gravity="useless",
)
class positions_along_the_batch(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[: len(tokens), None]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "There are two matrices with a row for each token. Tied means that one does both: the logits are dot "
    "products with the embedding's rows, x @ self.embedding.weight.T.",
    gravity="slip",
)
class untied(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


@EXERCISE.misconception(
    "There are two matrices with a row for each token, alike at first: from the first step of training on "
    "they differ. Assign the parameter itself, self.head.weight = self.embedding.weight, or use it in "
    "`forward`.",
    gravity="slip",
)
class tied_by_a_copy(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = nn.Parameter(self.embedding.weight.detach().clone())
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


@EXERCISE.misconception(
    "The embedding learns nothing from the logits, though it writes them. Multiply by self.embedding.weight "
    "itself, without `.detach()` or `.data`."
)
class head_cut_off(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.detach().T


@EXERCISE.misconception(
    "You return the logits of the last place alone. Return those of every place, since each of them predicts "
    "its next token: (B, T, vocab_size).",
    gravity="slip",
)
class last_place_alone(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x[:, -1]) @ self.embedding.weight.T


@EXERCISE.misconception(
    "You return a vector of d_model numbers for each place. Return a number for each token of the "
    "vocabulary: multiply by the embedding, transposed."
)
class hidden_states(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


@EXERCISE.misconception(
    "You return probabilities. Return the logits, without the softmax: cross-entropy takes the softmax "
    "itself.",
    gravity="slip",
)
class probabilities(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return (self.norm(x) @ self.embedding.weight.T).softmax(dim=-1)


@EXERCISE.misconception(
    "The first logits are as large as sqrt(d_model), so the first loss is far above that of a guess. "
    "nn.Embedding starts with standard normal numbers: start it small, std=0.02.",
    gravity="slip",
)
class large_embedding(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "Another layer brings no parameters of its own, and still it changes the logits: one block is used again "
    "and again. Make a new Block for each place in the ModuleList."
)
class one_block_again_and_again(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([Block(d_model, num_heads, 4 * d_model)] * num_layers)
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "The model is the same whatever num_layers is. Make num_layers blocks.",
    gravity="slip",
)
class a_single_block(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(1))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "One head or several give the same logits. Pass num_heads on to each block.",
    gravity="slip",
)
class heads_ignored(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, 1, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "A layer has too few parameters for attention and a feed-forward network. Give it both, and add both to "
    "the stream: x = block(x, mask)."
)
class attention_alone(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        for block in self.blocks:
            del block.ffn, block.norm_ffn
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = x + block.attention(block.norm_attention(x), mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "With all matrices of the layers at zero nothing of the token is left: the sublayers replace the stream. "
    "Add to it instead, x = x + sublayer(norm(x)).",
    gravity="useless",
)
class stream_cut(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block.attention(block.norm_attention(x), mask)
            x = block.ffn(block.norm_ffn(x))
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "The same tokens get other logits each time. Leave out dropout: nothing here is random.",
    gravity="slip",
)
class dropout(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = F.dropout(self.embedding(tokens) + self.position.weight[:T], 0.1)
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "The sequences of a batch attend to each other: batch and time have changed places. Keep (B, T, "
    "d_model).",
    gravity="useless",
)
class batch_for_time(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        for block in self.blocks:
            x = block(x.transpose(0, 1)).transpose(0, 1)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "PyTorch finds no parameters of the layers, so they never learn. A plain list hides them: use "
    "nn.ModuleList."
)
class blocks_in_a_list(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = [Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers)]
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "Every place takes the plain mean of what came before. Weigh it: the softmax of query times key lets a "
    "place read what it looks for."
)
class plain_mean(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.value = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(num_layers))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        weights = torch.ones(T, T, device=tokens.device).tril()
        weights = weights / weights.sum(dim=-1, keepdim=True)
        for value, ffn in zip(self.value, self.ffn, strict=True):
            x = x + weights @ value(F.layer_norm(x, x.shape[-1:]))
            x = x + ffn(F.layer_norm(x, x.shape[-1:]))
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "What a place reads depends on the places alone, not on the words. Make the scores of queries times "
    "keys, which both come from the words."
)
class weights_of_places(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.num_heads = num_heads
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.scores = nn.Parameter(torch.zeros(num_layers, num_heads, max_len, max_len))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block, scores in zip(self.blocks, self.scores, strict=True):
            weights = scores[:, :T, :T].masked_fill(~mask, -torch.inf).softmax(dim=-1)
            v = block.W_qkv(block.norm_attention(x)).chunk(3, dim=-1)[2]
            y = weights @ v.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            x = x + block.W_o(y.transpose(1, 2).flatten(-2))
            x = x + block.ffn(block.norm_ffn(x))
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "The last place reads the same words, whatever the last word is. Let the score of a key depend on the "
    "query: q @ k.mT, a number for each pair of places."
)
class keys_without_queries(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.num_heads = num_heads
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.score = nn.ModuleList(nn.Linear(d_model, num_heads) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block, score in zip(self.blocks, self.score, strict=True):
            y = block.norm_attention(x)
            scores = score(y).mT[:, :, None].masked_fill(~mask, -torch.inf)
            v = block.W_qkv(y).chunk(3, dim=-1)[2].unflatten(-1, (self.num_heads, -1))
            y = scores.softmax(dim=-1) @ v.transpose(1, 2)
            x = x + block.W_o(y.transpose(1, 2).flatten(-2))
            x = x + block.ffn(block.norm_ffn(x))
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "Part of the matrix that makes queries, keys and values gets no gradient: one of the three is never "
    "used. Weigh the values, weights @ v, with weights from queries and keys."
)
class values_are_keys(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            y = block.W_qkv(block.norm_attention(x)).unflatten(-1, (3, block.num_heads, -1))
            q, k = y.permute(2, 0, 3, 1, 4)[:2]
            scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf)
            x = x + block.W_o((scores.softmax(dim=-1) @ k).transpose(1, 2).flatten(-2))
            x = x + block.ffn(block.norm_ffn(x))
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "The feed-forward network is not four times as wide as the stream. Give each block the hidden width 4 * "
    "d_model.",
    gravity="slip",
)
class feed_forward_as_wide_as_the_stream(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "The learned positions have more rows than max_len says, so some are never read. Make one for each "
    "place: nn.Embedding(max_len, d_model).",
    gravity="slip",
)
class places_of_another_number(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(2 * max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "The stream grows with every layer, and the head reads it as large as it has become. Norm it once more: "
    "self.norm(x) @ self.embedding.weight.T.",
    gravity="slip",
)
class last_norm_missing(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return x @ self.embedding.weight.T


@EXERCISE.misconception(
    "What the layers add grows with the stream, since they read it without a norm. Norm the stream before "
    "each sublayer, as the given Block does: x = x + attention(norm(x)).",
    gravity="useless",
)
class no_norms(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        for block in self.blocks:
            block.norm_attention, block.norm_ffn = nn.Identity(), nn.Identity()
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "Another sequence of the batch changes the logits of the first, and attention is not the reason: a mean "
    "or a spread is taken over the batch. Norm each place by itself, over the last axis.",
    gravity="useless",
)
class norms_over_the_batch(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = x + block.attention(F.layer_norm(x.transpose(0, 2), x.shape[:1]).transpose(0, 2), mask)
            x = x + block.ffn(F.layer_norm(x.transpose(0, 2), x.shape[:1]).transpose(0, 2))
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "A place sees words that come after it, past every mask: a mean or a spread is taken over the places. "
    "Norm each place by itself, over the last axis.",
    gravity="useless",
)
class norms_over_the_places(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = x + block.attention(F.layer_norm(x.mT, x.shape[1:2]).mT, mask)
            x = x + block.ffn(F.layer_norm(x.mT, x.shape[1:2]).mT)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "What the layers add grows with the stream: the norms take the mean away and do not divide by the "
    "spread. Divide as well, or use nn.LayerNorm.",
    gravity="useless",
)
class norms_without_division(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = x + block.attention(x - x.mean(dim=-1, keepdim=True), mask)
            x = x + block.ffn(x - x.mean(dim=-1, keepdim=True))
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "You return the logits of the last place alone, with its axis. Return those of every place, since each "
    "of them predicts its next token: (B, T, vocab_size).",
    gravity="slip",
)
class last_place_kept(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x[:, -1:]) @ self.embedding.weight.T


@EXERCISE.misconception(
    "The feed-forward network is linear, so it adds nothing that one matrix could not. Put an activation, "
    "such as GELU, between its two matrices."
)
class no_activation(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        for block in self.blocks:
            block.ffn = nn.Sequential(block.ffn[0], block.ffn[2])
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.misconception(
    "When a text goes on, the logits of its beginning change: the places are numbered from the end. Number "
    "them from the beginning, self.position.weight[:T]."
)
class positions_from_the_end(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position.weight[-T:]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T
