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

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Lent, Measure, Outcome, Test, Trial
from autograder.exercises.ch10_capstone import given
from autograder.exercises.ch10_capstone.facts import FACTS, Model, Refused
from autograder.exercises.ch10_capstone.given import Block
from autograder.exercises.ch10_capstone.lesson import SIZES, lesson
from autograder.exercises.ch10_capstone.parts import PARTS, unused
from autograder.exercises.draw import sizes
from autograder.exercises.laws import on_any_device
from autograder.exercises.library import LAYERS
from tfcore.models import Decoder
from tfcore.models.presets import gpt2

Cases = Callable[[np.random.Generator], Iterable[Case]]

KNOWN = FACTS | PARTS

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
    yield Case("tokens that are not contiguous", (init, strided(tokens(rng, 3, 7, 19))), probe="asked")


def elsewhere(rng: np.random.Generator) -> Iterator[Case]:
    for case in two_models(rng):
        init, text = case.args
        yield Case(case.says, (init, {}, text), probe="module_elsewhere")


def lessons(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("a lesson on the coreference grammar", (SIZES, *lesson(rng)), probe="trained")


def found(*names: str) -> Measure:
    """The facts of these names about a case's model, found from its answers; see `facts` and `parts`.

    Of a model that returns no logits, or others each time, nothing else is said: what moves then is no fact.
    """

    def measure(call: Callable[[Case], Outcome], case: Case) -> Outcome:
        init, text = case.args
        model = Model(call, init, case.says)
        try:
            for name, right in READABLE.items():
                if (fact := KNOWN[name](model, text)) != right:
                    return Outcome(error="Unfit", message=PLAIN[name].format(fact))
            facts = {name: KNOWN[name](model, text) for name in names}
            return Outcome(facts, message=unused(model) if "use" in names else "")
        except Refused as refused:
            return refused.outcome

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
    "logits": "the model should return logits, (B, T, vocab_size); what it returns is {}",
    "repeats": "the same tokens get other logits {}: nothing here is random, so leave out dropout",
    "sees": "{}; a place should see itself and every place before it, and no later one",
    "length": (
        "when a text goes on, the logits of its beginning {}: number the places from the beginning, and let "
        "nothing depend on the length"
    ),
    "order": "exchange two earlier tokens, and the last logits do not change: the order {}",
    "choice": "the last place reads {}: softmax of its query times their keys should choose among them",
    "batch": "another sequence of the batch changes the logits of the first: rows of a batch must not meet",
    "layers": "another layer adds {}; each layer needs an attention and a feed-forward network of its own",
    "heads": "one head or several give the same logits: num_heads is not used",
    "width": "the feed-forward network is {} as the stream: no matrix of a layer has 4 * d_model rows",
    "bend": "the feed-forward network {}: put an activation, such as GELU, between its two matrices",
    "places": "the learned positions have {}; give them max_len rows, one for each place, and add them",
    "residual": "with every matrix inside the layers at zero a token {}; a sublayer adds: x = x + ...",
    "gradient": "the loss reaches {} of the parameters; a parameter that it does not reach cannot learn",
    "use": "{} takes part, and the rest does nothing. Are queries, keys and values each used once?",
    "norms": (
        "make the stream 10 times as large, and what the layers add to it {}; it should stay as it is: norm "
        "the stream over its last axis, mean and spread, before each sublayer"
    ),
    "last_norm": (
        "the stream that the head reads is {}: the logits grow with every layer. Norm it once more, "
        "before the head"
    ),
    "start": "before training, the loss is {}: the first logits are too large. Start the embedding small",
}
"""What a fact that is not as it should be means."""


READABLE = {"logits": "logits", "repeats": "the same"}
"""What a model must be like to be asked about anything else."""
NEEDED = {
    "sees": "itself and the past",
    "order": "matters",
    "choice": "what query and key choose",
    "batch": "kept apart",
    "residual": "comes through",
    "norms": "stays as it is",
}
"""What a model must be like to be taught."""


def plainly(trial: Trial) -> str | None:
    """The first fact that is not the reference's, in words."""
    said, idle = _first(trial.value, trial.expected), trial.outcome.message
    return f"{said} (No gradient reaches {idle}.)" if said and idle else said


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
    """A criterion on which facts decide; without any, all that a model must be like to be asked."""
    return Criterion(says, points, of, test=test, measure=found(*facts))


EXERCISE = Exercise(
    name="ch10_capstone/TinyGPT",
    signature="TinyGPT(vocab_size, d_model, num_heads, num_layers, max_len)",
    goal="Write a language model: logits (B, T, vocab_size) for tokens (B, T), with a tied embedding.",
    section="The model in six lines",
    reference=TinyGPT,
    criteria=(
        told("logits for every place, at any length", 0.25, of=any_length),
        told("a place sees itself and what came before", 1, "sees", "length"),
        told("the order of the words matters", 0.75, "order"),
        told("the words decide what a place reads", 0.75, "choice"),
        told("sequences of a batch are kept apart", 0.75, "batch"),
        told("one embedding reads tokens and writes logits", 0.5, "embedding", test=one_matrix),
        told(
            "layers, heads, widths and places as asked for", 0.5, "layers", "heads", "width", "bend", "places"
        ),
        told("a stream that layers add to, with all their parameters", 0.75, "residual", "gradient", "use"),
        told("the stream is normed before each sublayer and before the head", 0.75, "norms", "last_norm"),
        told("it starts near the loss of a guess", 0.25, "start"),
        Criterion("works on any device", 0.25, elsewhere, test=on_any_device),
        Criterion("it learns, and does not cheat", 5.5, lessons, test=learns, measure=examined),
    ),
    given=given,
    forbidden=LAYERS,
)


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


@EXERCISE.style("F.linear for the head, the mask from places compared")
class head_by_linear(nn.Module):
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
        places = torch.arange(T, device=tokens.device)
        mask = places[:, None] >= places
        for block in self.blocks:
            x = block(x, mask)
        return F.linear(self.norm(x), self.embedding.weight)


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
        self.up = nn.ModuleList(nn.Linear(d_model, 4 * d_model) for _ in range(num_layers))
        self.down = nn.ModuleList(nn.Linear(4 * d_model, d_model) for _ in range(num_layers))

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
