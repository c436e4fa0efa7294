"""ch10_capstone/TinyGPT: everything together, a language model that learns.

Nobody can name the parameters of a student's model, so it is judged by what it does: whom a place sees, what
moves with a row of the embedding, what another layer adds, what it learns in a hundred steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from autograder.exercise import Case, Criterion, Exercise, Lent, Measure, Outcome, Test, Trial
from autograder.exercises.ch10_capstone import given
from autograder.exercises.ch10_capstone.facts import FACTS, Model, Refused
from autograder.exercises.ch10_capstone.given import Block
from autograder.exercises.ch10_capstone.lesson import SIZES, lesson
from autograder.exercises.draw import sizes
from tfcore.models import Decoder
from tfcore.models.presets import gpt2

Cases = Callable[[np.random.Generator], Iterable[Case]]

BOUND = 1.2
"""Nats per token: out of reach for a model that knows which word comes after which, and nothing else."""


class TinyGPT(Decoder):
    """The reference: `tfcore`'s decoder, in the sizes of the exercise."""

    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__(gpt2(d_model, num_heads, num_layers, vocab_size, max_len))
        for embedding in (m for m in self.modules() if isinstance(m, nn.Embedding)):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens):
        return super().forward(tokens)


def tokens(rng: np.random.Generator, B: int, T: int, vocab_size: int) -> Tensor:
    """Tokens of which a row has no two alike, and from which the largest are absent."""
    return torch.from_numpy(np.stack([1 + rng.permutation(vocab_size - 4)[:T] for _ in range(B)]))


def two_models(rng: np.random.Generator) -> Iterator[Case]:
    """Models of different sizes, with tokens to look at them by."""
    for layers in (1, 2):
        h, d_head, B, T = sizes(rng, (2, 3), (4, 5), (2, 3), (4, 7))
        d_model, vocab_size, max_len = h * d_head, int(rng.integers(17, 23)), int(rng.integers(11, 13))
        init = {
            "vocab_size": vocab_size + (vocab_size == d_model),
            "d_model": d_model,
            "num_heads": h,
            "num_layers": layers,
            "max_len": max_len + (max_len == d_model),
        }
        says = f"{layers} layer{'s' * (layers > 1)}, {h} heads, d_model = {d_model}, {T} tokens"
        yield Case(says, (init, tokens(rng, B, T, init["vocab_size"])), probe="asked")


def any_length(rng: np.random.Generator) -> Iterator[Case]:
    yield from two_models(rng)
    init = {"vocab_size": 19, "d_model": 8, "num_heads": 2, "num_layers": 1, "max_len": 9}
    for says, T in (("a single token", 1), ("as long as it gets, max_len = 9", 9)):
        yield Case(says, (init, tokens(rng, 2, T, 19)), probe="asked")


def lessons(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("a lesson on the coreference grammar", (SIZES, *lesson(rng)), probe="trained")


def found(*names: str) -> Measure:
    """The facts of these names about a case's model, found from its answers; see `facts`."""

    def measure(call: Callable[[Case], Outcome], case: Case) -> Outcome:
        init, text = case.args
        model = Model(call, init, case.says)
        try:
            return Outcome({name: FACTS[name](model, text) for name in names})
        except Refused as refused:
            return refused.outcome
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
            if (form := FACTS["logits"](model, text)) == "logits":
                raise
            return Outcome(error="Unfit", message=PLAIN["logits"].format(form))

    return measure


def _known(says: str, thing: Any) -> Lent:
    """What is lent and can be looked at afterwards."""
    return Lent(says, lambda: thing)


def examined(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """What the examiner of a lesson has found, instead of anything that comes back.

    Who reads what it should not, or not what it should, is not taught: what such a model learns is a
    matter of luck. Who has not learned is taught once more, with the batches in another order, since a right
    model should not need any luck.
    """
    *_, two_layers = two_models(np.random.default_rng(0))
    outcome = found(*NEEDED)(call, two_layers)
    if outcome.error or outcome.forbidden or outcome.value != NEEDED:
        return outcome
    init, batches, lr, lent = case.args
    for order in (batches, batches[::-1]):
        examiner = lent.make()
        outcome = call(replace(case, args=(init, order, lr, _known(lent.says, examiner))))
        if outcome.error or outcome.forbidden:
            return outcome
        result = examiner.result()
        if result["loss"] < BOUND:
            break
    return replace(outcome, value=result)


PLAIN = {
    "logits": "what comes back should be logits, (B, T, vocab_size); it is {}",
    "repeats": "the same tokens get {} logits: nothing here is random, so leave out dropout",
    "sees": "{}: a place sees itself and what came before, and nothing that comes",
    "order": "exchange two earlier tokens, and the last logits stay as they were: the order {}",
    "choice": "the last place reads {}: softmax of its query times their keys should choose among them",
    "batch": "another sequence of the batch changes the logits of the first: rows of a batch must not meet",
    "layers": "another layer adds {}; each layer needs an attention and a feed-forward network of its own",
    "heads": "one head or several give the same logits: num_heads is not used",
    "residual": "with every matrix inside the layers at zero a token {}; a sublayer adds: x = x + ...",
    "gradient": "the loss reaches {} of the parameters; one that it does not reach cannot learn",
    "start": "before training, the loss is {}: the first logits are too large. Start the embedding small",
}
"""What a fact that is not as it should be means."""


NEEDED = {"sees": "itself and the past", "order": "matters", "choice": "what query and key choose"}
"""What a model must be like to be taught."""


def plainly(trial: Trial) -> str | None:
    """The first fact that is not the reference's, in words."""
    return _first(trial.value, trial.expected)


def _first(facts: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    for fact, right in wanted.items():
        if facts[fact] != right:
            return PLAIN[fact].format(str(facts[fact]).partition(";")[0])
    return None


def one_matrix(trial: Trial) -> str | None:
    seen = trial.value["embedding"]
    if seen["matrices"] > 1:
        copied = ", alike at first, that training would pull apart" if seen["alike at first"] else ""
        return f"there are {seen['matrices']} matrices with a row for each token{copied}; tied means: one"
    if not seen["matrices"]:
        return "no parameter has a row for each token: where is the embedding?"
    if not seen["writes"]:
        return "a row of the embedding does not move that token's logit: the head should use the same matrix"
    return (
        None if seen["reads"] else "a row of the embedding does not move what its token says: it is not read"
    )


def learns(trial: Trial) -> str | None:
    if "loss" not in trial.value:
        return f"it was not taught, since first the rest must be right. {_first(trial.value, NEEDED)}"
    loss = float(trial.value["loss"])
    if loss < BOUND:
        return None
    return (
        f"after its lesson the held-out loss is {loss:.2f} nats a token; it should be below {BOUND}. The "
        "model was asked word by word, so that it could not see what comes"
    )


def told(says: str, points: float, *facts: str, of: Cases = two_models, test: Test = plainly) -> Criterion:
    """A criterion on which facts decide."""
    return Criterion(says, points, of, test=test, measure=found(*facts))


EXERCISE = Exercise(
    name="ch10_capstone/TinyGPT",
    signature="TinyGPT(vocab_size, d_model, num_heads, num_layers, max_len)",
    goal="Write a language model: logits (B, T, vocab_size) for tokens (B, T), with a tied embedding.",
    reference=TinyGPT,
    criteria=(
        told("logits for every place, at any length", 2, "logits", "repeats", of=any_length),
        told("a place sees itself and what came before", 2, "sees"),
        told("the order of the words matters", 1, "order"),
        told("the words decide what a place reads", 1.5, "choice"),
        told("sequences of a batch are kept apart", 0.5, "batch"),
        told("one embedding reads tokens and writes logits", 1, "embedding", test=one_matrix),
        told("as many layers and heads as asked for", 0.5, "layers", "heads"),
        told("a stream that layers add to", 1, "residual", "gradient"),
        told("it starts near the loss of a guess", 0.5, "start"),
        Criterion("it learns, and does not cheat", 2, lessons, test=learns, measure=examined),
    ),
    given=given,
    forbidden=(
        "torch.nn.Transformer",
        "torch.nn.TransformerEncoder",
        "torch.nn.TransformerEncoderLayer",
        "torch.nn.TransformerDecoderLayer",
        "torch.nn.MultiheadAttention",
        "torch.nn.functional.multi_head_attention_forward",
    ),
)


@EXERCISE.misconception(
    "You give the blocks no mask, so that every place sees the whole text, the answer too. Pass a "
    "causal mask: torch.ones(T, T, dtype=torch.bool).tril()."
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
    "Your mask is upside down: a place sees what comes and not what came. True means may attend, so "
    "keep the lower triangle, tril."
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
    "Your mask leaves out the diagonal. The first token may then attend to nothing, and its softmax is "
    "0/0. A token sees itself: tril() with its diagonal."
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
    "Your mask lets a place see the next token, which is the very one that it has to guess: tril(), not "
    "tril(1)."
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
    "You mask the first block alone. In every other block the future leaks back: pass the mask to each "
    "of them."
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
    "You add no positions, and attention does not know the order of its keys. Add "
    "self.position.weight[:T] to the embedded tokens."
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
    "You add all max_len positions, whatever the length of the text. Take the first T of them: "
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
    "You add the position of the last token to all of them. Each place needs its own: rows 0 to T - 1."
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
    "Your positions run along the batch: every sequence gets one number for all its places. They belong "
    "to the time axis: self.position.weight[:T]."
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
    "Your head has a matrix of its own. Tied means that the logits are dot products with the "
    "embedding's rows: x @ self.embedding.weight.T."
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
    "You copy the embedding into the head. From the first step on they are two matrices again. Assign "
    "the parameter itself, self.head.weight = self.embedding.weight, or use it in forward."
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
    "You detach the embedding in the head, so that the logits teach it nothing. Use "
    "self.embedding.weight itself."
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
    "You return the logits of the last place alone. Every place guesses its next token: (B, T, vocab_size)."
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
    "You return the hidden states. Logits have a number for each token of the vocabulary: multiply by "
    "the embedding, transposed."
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
    "You return probabilities. Cross-entropy takes the softmax itself and wants logits: leave the "
    "softmax out."
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
    "nn.Embedding starts with standard normal numbers. Used as the head, it makes logits as large as "
    "sqrt(d_model), and the first loss is far above that of a guess: start it small, std=0.02."
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
    "You use the same block num_layers times. Each layer has parameters of its own: make a new Block "
    "for each in the ModuleList."
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


@EXERCISE.misconception("You make a single block, whatever num_layers says. Make num_layers of them.")
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


@EXERCISE.misconception("You build the blocks with a single head. Pass num_heads on.")
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
    "Your layers have attention and no feed-forward network. A block adds both to the stream: x = "
    "block(x, mask)."
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
    "Your sublayers replace the stream instead of adding to it. What a layer does not pass on is lost: "
    "x = x + sublayer(norm(x))."
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
    "Dropout is on, so that the same tokens get other logits each time. Nobody asked for it here: leave "
    "it out."
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
    "You exchange batch and time before the blocks, so that sequences of the batch attend to each "
    "other. Keep (B, T, d_model)."
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
    "A plain list hides the blocks from PyTorch: their parameters are not found, so they never learn. "
    "Use nn.ModuleList."
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
    "Every place takes the plain mean of what came before. Attention weighs: softmax of query times key, so "
    "that a place reads what it looks for."
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
    "Your weights are learned for each pair of places and do not look at the words. The scores are queries "
    "times keys, which both come from the words."
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
    "Each word has one score, whoever asks. The score of a key depends on the query: q @ k.mT, a number for "
    "each pair of places."
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


@EXERCISE.style("learned positions, a mask for each length")
class as_asked(nn.Module):
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
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.style("sines and cosines for positions")
class sines(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        angle = torch.arange(max_len)[:, None] / 10_000 ** (torch.arange(0, d_model, 2) / d_model)
        waves = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model]
        self.register_buffer("waves", 0.02 * waves)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.waves[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.style("one mask kept as a buffer, positions by their numbers, a tied linear head")
class tied_linear_head(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("mask", torch.ones(max_len, max_len).tril().bool())
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.position(torch.arange(T, device=tokens.device))
        for block in self.blocks:
            x = block(x, self.mask[:T, :T])
        return self.head(self.norm(x))


@EXERCISE.style("no final norm, F.linear for the head")
class no_final_norm(nn.Module):
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
        return F.linear(x, self.embedding.weight)


@EXERCISE.style("the embedding scaled by the root of the width, as in the first Transformer")
class scaled_embedding(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=0.05)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim) + self.position.weight[:T]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.embedding.weight.T


@EXERCISE.style("everything written out: fused attention, heads, a SiLU network")
class written_out(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.num_heads = num_heads
        self.E = nn.Parameter(0.02 * torch.randn(vocab_size, d_model))
        self.P = nn.Parameter(0.02 * torch.randn(max_len, d_model))
        self.qkv = nn.ModuleList(nn.Linear(d_model, 3 * d_model) for _ in range(num_layers))
        self.out = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(num_layers))
        self.up = nn.ModuleList(nn.Linear(d_model, 3 * d_model) for _ in range(num_layers))
        self.down = nn.ModuleList(nn.Linear(3 * d_model, d_model) for _ in range(num_layers))

    def forward(self, tokens):
        B, T = tokens.shape
        x = self.E[tokens] + self.P[:T]
        for qkv, out, up, down in zip(self.qkv, self.out, self.up, self.down, strict=True):
            y = F.layer_norm(x, x.shape[-1:])
            q, k, v = qkv(y).view(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + out(y.transpose(1, 2).reshape(B, T, -1))
            x = x + down(F.silu(up(F.layer_norm(x, x.shape[-1:]))))
        return F.layer_norm(x, x.shape[-1:]) @ self.E.T
