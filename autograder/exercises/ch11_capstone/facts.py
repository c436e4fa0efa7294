"""Facts about a language model with unknown names of parameters, found from its answers alone.

The student's process returns raw numbers: logits for tokens and parameters that are chosen here, the
parameters themselves, gradients. All conclusions are drawn here, so a process that lies has to answer as a
right model would. A model is made from a fixed seed, and its matrices are moved away from their first values,
so that no effect is too small to be seen. Facts are stated in words that do not depend on the numbers drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from autograder.cage import tensors
from autograder.cage.language_models import Init, loss
from autograder.cage.tensors import is_tensor
from autograder.checking.declaration import Case, Outcome

SEEN = 1e-4
"""A change of the logits above this part of their size is not rounding."""
NEAR = 1.5
"""How far, in nats, the first loss may be above the loss of a guess among all tokens."""
LARGE = 100
"""How large parameters are made, so that a softmax chooses a single place."""


class Refused(Exception):
    """Raised when the student's code gave no answer; the outcome has the reason."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


Answers = dict[bytes, Outcome]
_answers: WeakKeyDictionary[Callable[[Case], Outcome], Answers] = WeakKeyDictionary()
"""The answers of a student's code so far, by a digest of the question."""


class Model:
    """A student's model, known by its answers. Each answer comes from a new model, made from one seed.

    An answer that several facts need is computed once.

    Args:
        call: the student's code.
        init: the arguments of the class.
        says: the name of the case in a report.
    """

    def __init__(self, call: Callable[[Case], Outcome], init: Init, says: str) -> None:
        self.init = init
        self._call, self._says = call, says
        self._answers = _answers.setdefault(call, {})

    def like(self, **changed: int) -> Model:
        """Return the model with other arguments."""
        return Model(self._call, self.init | changed, self._says)

    @cached_property
    def first(self) -> dict[str, Tensor]:
        """Return its parameters as they are made."""
        return dict(self._asked("first_parameters"))

    @cached_property
    def raised(self) -> dict[str, Tensor]:
        """Return its parameters, with the matrices moved away from their first values."""
        generator = torch.Generator().manual_seed(1)
        return {
            name: p + torch.randn(p.shape, generator=generator) / p.shape[-1] ** 0.5 if p.dim() > 1 else p
            for name, p in self.first.items()
        }

    def logits(
        self, *texts: Tensor, parameters: dict[str, Tensor] | None = None, in_use: bool = False
    ) -> list[Tensor]:
        """Return the logits of each text, with the raised parameters if no others are given."""
        given = self.raised if parameters is None else parameters
        answers = list(self._asked("outputs", given, list(texts), in_use))
        if len(answers) != len(texts):
            raise ValueError(f"{len(texts)} texts were asked about, {len(answers)} answers came")
        return answers

    def slopes(self, tokens: Tensor) -> dict[str, Any]:
        """Return the gradients of the loss that the model reports, at its raised parameters."""
        return dict(self._asked("gradients", self.raised, tokens))

    def loss(self, tokens: Tensor, parameters: dict[str, Tensor]) -> float:
        """Return the loss with some of its raised parameters replaced by these."""
        (found,) = self.logits(tokens[:, :-1], parameters=self.raised | parameters)
        return float(loss(found.double(), tokens[:, 1:]))

    @cached_property
    def vocabulary(self) -> dict[str, Tensor]:
        """Return its matrices that have a row, or a column, for each token."""
        size = self.init["vocab_size"]
        return {name: p for name, p in self.first.items() if p.dim() == 2 and size in p.shape}

    def _asked(self, *question: Any) -> Any:
        key = digest(self.init, question)
        if key not in self._answers:
            self._answers[key] = self._call(Case(self._says, (self.init, *question), probe="asked"))
        outcome = self._answers[key]
        if outcome.error or outcome.forbidden:
            raise Refused(outcome)
        return outcome.value


def digest(init: Init, question: tuple[Any, ...]) -> bytes:
    """Return a digest of this question to a model with these arguments."""
    spelled = sha256(repr(sorted(init.items())).encode())

    def spell(x: Any) -> None:
        spelled.update(repr((x.shape, x.dtype) if is_tensor(x) else x).encode())
        if is_tensor(x):
            spelled.update(tensors.numbers(x).tobytes())

    tensors.mapped(spell, question)
    return spelled.digest()


def moved(before: Tensor, after: Tensor) -> Tensor:
    """Return where logits (..., V) moved, as booleans (...)."""
    far = (after - before).abs().amax(dim=-1) > SEEN * before.abs().max()
    return far | after.isnan().any(dim=-1)


def other_tokens(tokens: Tensor, init: Init) -> Tensor:
    """Return another token for each place, neither padding nor the present one."""
    return tokens % (init["vocab_size"] - 1) + 1


def logits(model: Model, tokens: Tensor) -> str:
    """Describe the form of the result."""
    (found,) = model.logits(tokens)
    wanted = (*tokens.shape, model.init["vocab_size"])
    if not is_tensor(found):
        return f"a {type(found).__name__}"
    if tuple(found.shape) != wanted:
        return f"of shape {tuple(found.shape)}, not {wanted}"
    if not found.isfinite().all():
        wrong = ~found.isfinite().all(dim=-1).all(dim=0)
        return f"not finite{'' if wrong.all() else ' at the first place' if wrong[0] else ' at some places'}"
    if bool((found >= 0).all()) and torch.allclose(found.sum(dim=-1), torch.ones(tokens.shape), atol=1e-4):
        return "probabilities, which sum to 1"
    if not moved(found, *model.logits(other_tokens(tokens, model.init))).any():
        return "the same for all tokens"
    return "logits"


def repeats(model: Model, tokens: Tensor) -> str:
    """Find out whether the same call gives the same logits, in training and in use.

    The fewer the tokens, the more often it calls: dropout may use the same mask twice on a few channels.
    """
    one, *again = model.logits(*[tokens] * (2 + 40 // tokens.numel()))
    if not all(torch.equal(one, each) for each in again):
        return "each time"
    return "after .eval()" if moved(one, *model.logits(tokens, in_use=True)).any() else "the same"


def sees(model: Model, tokens: Tensor) -> str:
    """Find the places that see tokens they should not see, or do not see tokens they should."""
    length = tokens.shape[1]
    texts = [tokens] + [tokens.clone() for _ in range(length)]
    for j, changed in enumerate(texts[1:]):
        changed[:, j] = other_tokens(tokens, model.init)[:, j]
    before, *after = model.logits(*texts)
    seen = torch.stack([moved(before, answer).any(dim=0) for answer in after], dim=1)
    past = torch.ones_like(seen).tril()
    wrong = [f"place {i} sees token {j}, which comes after it" for i, j in (seen & ~past).nonzero().tolist()]
    wrong += [f"place {i} does not see token {j}" for i, j in (past & ~seen).nonzero().tolist()]
    return "; ".join(wrong) or "itself and the past"


def length(model: Model, tokens: Tensor) -> str:
    """Find out whether the logits of a text begin with the logits of its beginning."""
    part = tokens[:, : tokens.shape[1] - 2]
    whole, short = model.logits(tokens, part)
    return "change" if moved(whole[:, : part.shape[1]], short).any() else "stay as they were"


def order(model: Model, tokens: Tensor) -> str:
    """Find out whether one layer distinguishes two earlier tokens by their places."""
    exchanged = tokens.clone()
    exchanged[:, [0, 1]] = tokens[:, [1, 0]]
    one, other, turned, short = model.like(num_layers=1).logits(
        tokens, exchanged, tokens.flip(0), tokens[:, :1]
    )
    if moved(one, other)[:, -1].any():
        return "matters"
    if moved(one, turned.flip(0)).any():
        return "does not matter, but the row of the batch does"
    return f"does not matter{', but the length does' if moved(one[:, :1], short).any() else ''}"


def choice(model: Model, tokens: Tensor) -> str:
    """Find out what decides which earlier places the last place reads.

    One layer with one head is tested, with parameters so large that a softmax chooses. A place is read if
    every change of its token moves the last logits. Scores without a query put the places in one order,
    whatever the last token is: of two sets of places read, one is then within the other. Scores without
    keys do so whatever the earlier tokens are.
    """
    read = _read_places(model.like(num_layers=1, num_heads=1))
    if read.all():
        return "all the words before it alike"
    of_the_query = any(_differ(story) for story in read)
    of_the_keys = any(_differ(asked) for asked in read.transpose(0, 1))
    if of_the_query and of_the_keys:
        return "what query and key choose"
    if of_the_keys:
        return "the same words, whatever the last word is"
    if of_the_query:
        return "what the last word chooses, whatever the others are"
    return "the same places, whatever the words are"


def _read_places(model: Model, stories: int = 3, queries: int = 10, length: int = 6) -> Tensor:
    """Return which places of a story a last token reads, (stories, queries, length) of bool."""
    others = model.init["vocab_size"] - 1
    generator = torch.Generator().manual_seed(3)
    last = 1 + torch.randperm(others, generator=generator)[:queries, None]
    texts: list[Tensor] = []
    for _ in range(stories):
        story = 1 + torch.randperm(others, generator=generator)[:length]
        text = torch.cat([story.expand(queries, length), last], dim=1)
        texts.append(text)
        for place in range(length):
            for part in (1, 2):
                texts.append(text.clone())
                texts[-1][:, place] = (story[place] - 1 + part * others // 3) % others + 1
    vocabulary = model.vocabulary
    large = {
        name: p * (LARGE**2 if name in vocabulary else LARGE if p.dim() else 1)
        for name, p in model.raised.items()
    }
    answers = model.logits(*texts, parameters=large)
    each = 1 + 2 * length
    read = [
        torch.stack([moved(before, after)[:, -1] for after in changed], dim=1)
        for before, *changed in (answers[start : start + each] for start in range(0, len(answers), each))
    ]
    return torch.stack(read).unflatten(-1, (length, 2)).all(dim=-1)


def _differ(sets: Tensor) -> bool:
    """Return whether two of the rows, sets of places, each have a place that the other lacks."""
    beyond = (sets[:, None] & ~sets).any(dim=-1)
    return bool((beyond & beyond.T).any())


def batch(model: Model, tokens: Tensor) -> str:
    """Find out whether the first sequence of a batch sees another."""
    changed = tokens.clone()
    changed[1:] = other_tokens(tokens, model.init)[1:]
    return "shared" if moved(*model.logits(tokens, changed))[0].any() else "kept apart"


def embedding(model: Model, tokens: Tensor) -> dict[str, Any]:
    """Count the matrices with a row for each token, and find the logits that move with a row of the first."""
    size = model.init["vocab_size"]
    matrices = model.vocabulary
    first_two = list(matrices.values())[:2]
    alike = len(first_two) == 2 and torch.equal(*first_two)
    found = {"matrices": len(matrices), "alike at first": alike, "reads": False, "writes": False}
    if not matrices:
        return found
    name = next(iter(matrices))

    def pushed(token: int) -> Tensor:
        changed = matrices[name].clone()
        row = changed if changed.shape[0] == size else changed.T
        row[token] += torch.linspace(-1, 1, row.shape[1]) ** 3
        return model.logits(tokens, parameters=model.first | {name: changed})[0]

    (before,) = model.logits(tokens, parameters=model.first)
    absent, present = int(_absent(tokens, size)), int(tokens[0, 0])
    found["writes"] = bool((pushed(absent)[..., absent] - before[..., absent]).abs().max() > SEEN)
    others = [i for i in range(size) if i != present]
    found["reads"] = bool((pushed(present) - before)[0, 0, others].abs().max() > SEEN * before.abs().max())
    return found


def _absent(tokens: Tensor, size: int) -> Tensor:
    """Return a token that does not occur."""
    every = torch.arange(size)
    return every[~torch.isin(every, tokens)][-1]


def start(model: Model, tokens: Tensor) -> str:
    """Compare the first loss with the loss of a guess among all tokens."""
    guess = math.log(model.init["vocab_size"])
    near = model.loss(tokens, model.first) < guess + NEAR
    return "near that of a guess" if near else "far above that of a guess"


FACTS: dict[str, Callable[[Model, Tensor], Any]] = {
    fact.__name__: fact for fact in (logits, repeats, sees, length, order, choice, batch, embedding, start)
}
