"""ch11_capstone/TinyGPT: everything together, a language model that learns.

The names of the parameters of a student's model are unknown, so the grader judges its answers: which tokens a
place sees, which logits move with a row of the embedding, the effect of another layer, and the loss after a
hundred steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from autograder.cage.tensors import strided
from autograder.checking.declaration import Case, Criterion, Exercise, Lent, Measure, Outcome, Test, Trial
from autograder.exercises.ch11_capstone import given
from autograder.exercises.ch11_capstone.facts import FACTS, Model, Refused
from autograder.exercises.ch11_capstone.lesson import SIZES, lesson
from autograder.exercises.ch11_capstone.parts import PARTS, unused
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
    """Draw tokens (B, T) that all differ within a row, and leave out the largest tokens."""
    return torch.from_numpy(np.stack([1 + rng.permutation(vocab_size - 4)[:T] for _ in range(B)]))


def two_models(rng: np.random.Generator) -> Iterator[Case]:
    """Yield models of different sizes, with tokens; no size equals another, or twice `max_len`.

    Heads have an even width, which rotary positions and tables of sines and cosines need.
    """
    for layers in (1, 2):
        h, d_head, B, T = sizes(rng, (2, 3), (4, 6), (2, 3), (4, 7))
        d_head += d_head % 2
        d_model, vocab_size, max_len = h * d_head, int(rng.integers(17, 22)), int(rng.integers(11, 13))
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
    for says, T in (("a single token", 1), ("the longest text, max_len = 9", 9)):
        yield Case(says, (init, tokens(rng, 2, T, 19)), probe="asked")
    yield Case("tokens that are not contiguous", (init, strided(tokens(rng, 3, 7, 19))), probe="asked")


def elsewhere(rng: np.random.Generator) -> Iterator[Case]:
    for case in two_models(rng):
        init, text = case.args
        yield Case(case.says, (init, {}, text), probe="module_elsewhere")


def lessons(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("a lesson on the coreference grammar", (SIZES, *lesson(rng)), probe="trained")


def found(*names: str) -> Measure:
    """Find the facts of these names about a case's model from its answers; see `facts` and `parts`.

    If a model returns no logits, or other logits each time, the search ends: then no further fact can be
    found.
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
    """Lend an object that can be read afterwards."""
    return Lent(says, lambda: thing)


def examined(call: Callable[[Case], Outcome], case: Case) -> Outcome:
    """Return the findings of the examiner of a lesson, instead of the result of the call.

    A model that sees the wrong tokens is not taught: its loss would be a matter of luck. A model that has not
    learned is taught once more, with the batches in another order, since a right model should not need luck.
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
    "choice": "the last place reads {}: a softmax of its query times the keys should choose the places",
    "batch": "another sequence of the batch changes the logits of the first: rows of a batch must not mix",
    "layers": "another layer adds {}; each layer needs an attention and a feed-forward network of its own",
    "heads": "one head or several give the same logits: num_heads is not used",
    "width": "the feed-forward network is {} as the stream: no matrix of a layer has 4 * d_model rows",
    "bend": "the feed-forward network {}: put an activation, such as GELU, between its two matrices",
    "places": "the learned positions have {}; give them max_len rows, and add one row to each token",
    "residual": "with every matrix inside the layers at zero a token {}; a sublayer adds: x = x + ...",
    "gradient": "a gradient reaches {} of the parameters; a parameter without a gradient cannot learn",
    "use": "{} takes part, and the rest does nothing. Are queries, keys and values each used once?",
    "norms": (
        "if the stream is 10 times as large, what the layers add to it {}; it should stay as it is: norm "
        "the stream over its last axis, mean and spread, before each sublayer"
    ),
    "last_norm": (
        "the stream that the head reads is {}: the logits grow with every layer. Norm it once more, "
        "before the head"
    ),
    "start": "before training, the loss is {}: the first logits are too large. Start the embedding small",
}
"""The message for each wrong fact."""
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
    """Describe the first fact that differs from the reference."""
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
        copied = ", equal at first, which training would pull apart" if seen["alike at first"] else ""
        return (
            f"there are {seen['matrices']} matrices with a row for each token{copied}; tied means one matrix"
        )
    if not seen["matrices"]:
        return "no parameter has a row for each token: where is the embedding?"
    if not seen["writes"]:
        return "a row of the embedding does not move that token's logit: the head should use the same matrix"
    return None if seen["reads"] else "a row of the embedding does not change the logits after its token"


def learns(trial: Trial) -> str | None:
    if "loss" not in trial.value:
        return f"the model was not trained: the rest must be right first. {_first(trial.value, NEEDED)}"
    loss = float(trial.value["loss"])
    if loss < BOUND:
        return None
    return (
        f"after its training the held-out loss is {loss:.2f} nats a token; it should be below {BOUND}. The "
        "model was asked word by word, so it could not see later words"
    )


def told(says: str, points: float, *facts: str, of: Cases = two_models, test: Test = plainly) -> Criterion:
    """Make a criterion about these facts; without any, about those that all other facts need."""
    return Criterion(says, points, of, test=test, measure=found(*facts))


EXERCISE = Exercise(
    name="ch11_capstone/TinyGPT",
    drawn_as="ch10_capstone/TinyGPT",
    signature="TinyGPT(vocab_size, d_model, num_heads, num_layers, max_len)",
    goal="Write a language model: logits (B, T, vocab_size) for tokens (B, T), with a tied embedding.",
    section="The model in six lines",
    minutes=45,
    difficulty="hard",
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
        told("layers add to the stream, and use all their parameters", 0.75, "residual", "gradient", "use"),
        told("the stream is normed before each sublayer and before the head", 0.75, "norms", "last_norm"),
        told("the first loss is near the loss of a guess", 0.25, "start"),
        Criterion("works on any device", 0.25, elsewhere, test=on_any_device),
        Criterion("learns without cheating", 5.5, lessons, test=learns, measure=examined),
    ),
    given=given,
    forbidden=LAYERS,
)
