"""ch07_causal_masking/combine_masks: a key is open if it comes no later and is no padding."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import numbers, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.draw import sizes
from autograder.exercises.laws import elsewhere, on_any_device
from tfcore import masks


def padded(rng: np.random.Generator, batch: int, T_k: int, left: bool = False) -> Tensor:
    """Padding (B, T_k) on the right or left, of different lengths, the shortest sequence first."""
    lengths = np.sort(rng.permutation(np.arange(1, T_k))[:batch])
    real = torch.arange(T_k) < torch.from_numpy(lengths)[:, None]
    return real.flip(1) if left else real


def as_many_keys_as_queries(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("one sequence of 3, its last token padding", (_causal(3), torch.tensor([[True, True, False]])))
    B, T = sizes(rng, (2, 3), (5, 7))
    yield Case(f"a batch of {B}, T = {T}, padded on the right", (_causal(T), padded(rng, B, T)))
    yield Case(f"a batch of {B + 1}, T = {T}, no padding", (_causal(T), torch.ones(B + 1, T).bool()))


def other_shapes(rng: np.random.Generator) -> Iterator[Case]:
    B, T_q, T_k = sizes(rng, (2, 4), (3, 5), (7, 9))
    yield Case(f"{T_q} queries, {T_k} keys", (_causal(T_q, T_k), padded(rng, B, T_k)))
    yield Case("one query", (_causal(1, T_k), padded(rng, B, T_k)))
    yield Case("masks that are not contiguous", (strided(_causal(T_q, T_k)), strided(padded(rng, B, T_k))))


def empty_rows(rng: np.random.Generator) -> Iterator[Case]:
    """Queries that see nothing: padding comes first, or there is nothing else."""
    yield Case("the first token is padding", (_causal(2), torch.tensor([[False, True]])))
    B, T = sizes(rng, (2, 4), (5, 8))
    yield Case(f"a batch of {B}, padded on the left", (_causal(T), padded(rng, B, T, left=True)))
    nothing = padded(rng, B, T)
    nothing[-1] = False
    yield Case("a sequence that is all padding", (_causal(T), nothing))


def _causal(q_len: int, k_len: int | None = None) -> Tensor:
    return masks.causal_mask(q_len, k_len)


def everything(rng: np.random.Generator) -> Iterator[Case]:
    yield from as_many_keys_as_queries(rng)
    yield from other_shapes(rng)


def _entry(trial: Trial, wrong: np.ndarray) -> tuple[str, bool, bool]:
    """The first wrong entry in words, and what the two masks say of it."""
    b, _, i, j = (int(n) for n in np.argwhere(wrong)[0])
    causal, padding = map(numbers, trial.case.args)
    return f"sequence {b}, query {i}, key {j}", bool(causal[i, j]), bool(padding[b, j])


def is_boolean(trial: Trial) -> str | None:
    if trial.value.dtype == torch.bool:
        return None
    return f"your mask holds numbers ({trial.value.dtype}); each entry should be True, may attend, or False"


def allows_no_more(trial: Trial) -> str | None:
    wrong = (numbers(trial.value) != 0) & ~numbers(trial.expected)
    if not wrong.any():
        return None
    place, causal, real = _entry(trial, wrong)
    why = "the key is padding" if causal and not real else "the key comes later"
    return f"{place}: your mask is True, though {why if causal or real else 'both masks forbid it'}"


def allows_no_less(trial: Trial) -> str | None:
    wrong = (numbers(trial.value) == 0) & numbers(trial.expected)
    if not wrong.any():
        return None
    return f"{_entry(trial, wrong)[0]}: your mask is False, though causal and padding are both True there"


EXERCISE = Exercise(
    name="ch07_causal_masking/combine_masks",
    signature="combine_masks(causal, padding)",
    goal="Allow what both masks allow, in a shape that broadcasts over heads: (B, 1, T_q, T_k).",
    section="Minus infinity, not zero",
    reference=masks.combine_masks,
    criteria=(
        Criterion("a key is open if both masks say so", 1, as_many_keys_as_queries),
        Criterion("any number of queries and keys", 0.25, other_shapes),
        Criterion("a query that sees nothing keeps its row of False", 0.25, empty_rows),
        Criterion("works on any device", 0.25, elsewhere(everything), test=on_any_device),
        Criterion("the masks are left as they were", 0.25, everything, observes="arguments"),
    ),
    properties=(
        Property("the mask is boolean", is_boolean),
        Property("nothing is open that one mask forbids", allows_no_more),
        Property("everything is open that both masks allow", allows_no_less),
    ),
)


@EXERCISE.misconception(
    "A key is open if *one* of the masks allows it. Open it only if both do: `&`, not `|`.",
    gravity="useless",
)
def or_for_and(causal, padding):
    return causal | padding[:, None, None, :]


@EXERCISE.misconception(
    "The padding closes queries, the rows. It says which *keys* are real: padding[:, None, None, :] puts it "
    "on the last axis."
)
def padding_on_queries(causal, padding):
    return causal & padding[:, None, :, None]


@EXERCISE.misconception(
    "The rows of padded queries are closed too. Mask keys alone: the output of a padded query is not used, "
    "and an empty row makes a NaN more likely.",
    gravity="slip",
)
def queries_and_keys(causal, padding):
    rows = padding[:, None, -causal.shape[0] :, None]
    return causal & padding[:, None, None, :] & rows


@EXERCISE.misconception(
    "The mask has no axis for the heads. (B, T_q, T_k) against scores (B, h, T_q, T_k) pairs sequences with "
    "heads: make it (B, 1, T_q, T_k).",
    gravity="slip",
)
def no_axis_for_heads(causal, padding):
    return causal & padding[:, None, :]


@EXERCISE.misconception(
    "Padding is open and real tokens are closed. True already means a real token, one that may be attended "
    "to: use `padding` without `~`.",
    gravity="useless",
)
def padding_inverted(causal, padding):
    return causal & ~padding[:, None, None, :]


@EXERCISE.misconception(
    "Later keys are open and earlier ones are closed. True means *may attend* in both masks: use `causal` "
    "without `~`.",
    gravity="useless",
)
def causal_inverted(causal, padding):
    return ~causal & padding[:, None, None, :]


@EXERCISE.misconception(
    "The axis of size 1 is in the wrong place. Put the batch first, then the heads, (B, 1, T_q, T_k), as in "
    "the scores: padding[:, None, None, :].",
    gravity="slip",
)
def heads_before_batch(causal, padding):
    return (causal & padding[:, None, :])[None]


@EXERCISE.misconception(
    "The first sequence's padding closes keys in the whole batch. Each sequence has its own length: keep the "
    "batch axis, padding[:, None, None, :]."
)
def padding_of_the_first(causal, padding):
    return (causal & padding[0]).expand(len(padding), 1, *causal.shape)


@EXERCISE.misconception(
    "The caller's causal mask is changed, and what one sequence closes stays closed for the next. Make a new "
    "mask: causal & padding[:, None, None, :]."
)
def written_into_causal(causal, padding):
    combined = []
    for real in padding:
        causal[:, ~real] = False
        combined.append(causal.clone())
    return torch.stack(combined)[:, None]


@EXERCISE.misconception(
    "The caller's causal mask is changed, and all sequences get one mask, closed by the padding of each. "
    "Make a new mask: causal & padding[:, None, None, :]."
)
def one_mask_for_all(causal, padding):
    combined = []
    for real in padding:
        mask = causal
        mask[:, ~real] = False
        combined.append(mask)
    return torch.stack(combined)[:, None]


@EXERCISE.misconception(
    "A query that may see nothing sees its own key, so padding leaks into its output. Leave its row empty: "
    "attention turns it into zeros."
)
def empty_rows_opened(causal, padding):
    mask = causal & padding[:, None, None, :]
    T_q, T_k = causal.shape
    own = torch.eye(T_k, dtype=torch.bool, device=causal.device)[T_k - T_q :]
    return mask | (own & ~mask.any(dim=-1, keepdim=True))


@EXERCISE.misconception(
    "The mask holds numbers. Keep it boolean: `&` of two boolean masks stays boolean.",
    gravity="slip",
)
def numbers_for_booleans(causal, padding):
    return causal.float() * padding.float()[:, None, None, :]


@EXERCISE.misconception(
    "The mask holds what is added to the scores, 0 and -inf. Return the decision itself, a boolean mask with "
    "True = may attend.",
    gravity="slip",
)
def added_to_scores(causal, padding):
    mask = causal & padding[:, None, None, :]
    return torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -math.inf)


@EXERCISE.misconception(
    "The causal mask comes back as it was, once for each sequence. Let the padding close keys as well: `& "
    "padding[:, None, None, :]`."
)
def padding_ignored(causal, padding):
    return causal.expand(len(padding), 1, *causal.shape)


@EXERCISE.misconception(
    "(T_q, T_k) and (B, T_k) are combined as they are, so the sequences of `padding` meet the queries of "
    "`causal`. Give padding an axis for the heads and one for the queries: padding[:, None, None, :]."
)
def no_axes_put_in(causal, padding):
    return causal & padding


@EXERCISE.style("and, with axes put in")
def and_with_axes(causal, padding):
    return causal[None, None, :, :] & padding[:, None, None, :]


@EXERCISE.style("a product of booleans")
def product(causal, padding):
    return causal * padding.unsqueeze(1).unsqueeze(1)


@EXERCISE.style("einsum of numbers, then back to boolean")
def einsum(causal, padding):
    return torch.einsum("ij,bj->bij", causal.float(), padding.float()).bool().unsqueeze(1)


@EXERCISE.style("forbidden if one of them forbids")
def forbidden_by_one(causal, padding):
    B, T_k = padding.shape
    hidden = ~causal.expand(B, 1, -1, T_k) | ~padding.view(B, 1, 1, T_k)
    return ~hidden


@EXERCISE.style("padded keys filled with False")
def filled(causal, padding):
    B, T_k = padding.shape
    return causal.repeat(B, 1, 1, 1).masked_fill(~padding.reshape(B, 1, 1, T_k), False)


@EXERCISE.style("sequence by sequence, in a loop")
def sequence_by_sequence(causal, padding):
    combined = []
    for real in padding:
        mask = causal.clone()
        mask[:, ~real] = False
        combined.append(mask)
    return torch.stack(combined).unsqueeze(1)
