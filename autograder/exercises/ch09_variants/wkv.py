"""ch09_variants/wkv: RWKV's attention, a weighted mean that fades with age."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from autograder.cage.tensors import numbers, strided
from autograder.checking.declaration import Case, Criterion, Exercise, Property, Trial
from autograder.exercises.ch09_variants.drawing import IN_FLOAT32, ROUGH
from autograder.exercises.ch09_variants.weighing import (
    nothing_from_the_future,
    out_of_proportion,
    slack,
    sum_to_one,
    weights_by_channel,
)
from autograder.exercises.draw import sizes, tensor
from autograder.exercises.laws import FIRST, LAST, differentiated, elsewhere, on_any_device
from tfcore import wkv as rwkv


def drawn(
    rng: np.random.Generator, B: int, T: int, d: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    """w, u (d,) and k, v (B, T, d): decays well above 0, bonuses of either sign, soft keys."""
    w = torch.from_numpy(rng.uniform(0.2, 1.5, size=d))
    return tuple(x.to(dtype) for x in (w, tensor(rng, d), tensor(rng, B, T, d), tensor(rng, B, T, d)))


def means(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 tokens of width 2", drawn(rng, 1, 3, 2))
    B, T, d = sizes(rng, (2, 4), (5, 9), (3, 6))
    yield Case(f"B = {B}, T = {T}, d = {d}", drawn(rng, B, T, d))
    yield Case("a single token: its own value", drawn(rng, 2, 1, 3))
    yield Case("one channel", drawn(rng, 2, 4, 1))
    yield Case("25 tokens", drawn(rng, 1, 25, 3))
    w, u, k, v = map(strided, drawn(rng, 3, 5, 2))
    yield Case("tensors that are not contiguous", (w, u, k, v))


def large(rng: np.random.Generator) -> Iterator[Case]:
    """Keys of 1,000 and more, of one size or far apart, so that exp alone gives inf or 0."""
    for says, levels in (
        ("keys around 1,000", np.full(4, 1e3)),
        ("keys around -1,000", np.full(4, -1e3)),
        ("keys that rise by 500", 500.0 * np.arange(5)),
        ("keys that fall by 500", -500.0 * np.arange(5)),
        ("keys of 1,000 and -1,000 mixed", rng.permutation([1e3, -1e3, 1e3, -1e3, 0.0])),
    ):
        w, u, k, v = drawn(rng, 2, len(levels), 3, dtype=torch.float64)
        yield Case(says, (w, u, k + torch.from_numpy(levels)[:, None], v))
    w, u, k, v = drawn(rng, 2, 4, 3, dtype=torch.float64)
    w, u, k = ((64 * x).round() / 64 for x in (w, u, k))  # what float32 holds exactly, 100,000 away from 0
    yield Case("keys around -100,000", (w, u, k - 1e5, v))
    w, u, k, v = drawn(rng, 2, 4, 3)
    yield Case("float32, keys around 1,000", (w, u, k + 1e3, v))
    yield Case("a bonus of 1,000", (w, u + 1e3, k, v))
    yield Case("a bonus of -1,000", (w, u - 1e3, k, v))
    w, u, k, v = drawn(rng, 2, 7, 3, dtype=torch.float64)
    k[:, 0] += 1e3
    yield Case("one key of 1,000, which fades by 300 a step", (w + 300, u, k, v))


def long(rng: np.random.Generator) -> Iterator[Case]:
    w, u, k, v = drawn(rng, 1, 130, 2, dtype=torch.float64)
    yield Case("130 tokens, decays around 8", (8 + w, u, k, v))
    yield Case("130 tokens, decays around 0.001", (w / 1000, u, k, v))


def wide_and_narrow(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("float64", drawn(rng, 2, 5, 3, dtype=torch.float64))
    yield Case("bfloat16", drawn(rng, 2, 4, 3, dtype=torch.bfloat16))


def soft(rng: np.random.Generator) -> Iterator[Case]:
    yield Case("3 tokens of width 2", drawn(rng, 1, 3, 2))
    yield Case("5 tokens, float64", drawn(rng, 2, 5, 3, dtype=torch.float64))


def soft_and_large(rng: np.random.Generator) -> Iterator[Case]:
    yield from soft(rng)
    w, u, k, v = drawn(rng, 2, 4, 3, dtype=torch.float64)
    yield Case("keys that rise by 500", (w, u, k + 500 * torch.arange(4)[:, None], v))


def the_first_is_its_own_value(trial: Trial) -> str | None:
    got, value = numbers(trial.value)[:, 0], numbers(trial.case.args[3])[:, 0]
    wrong = ~np.isclose(got, value, rtol=1e-3, atol=1e-3)
    if not wrong.any():
        return None
    return (
        f"the first token sees itself alone, so out[:, 0] is v[:, 0]; yours is {got[wrong][0]:.4g} for "
        f"{value[wrong][0]:.4g}"
    )


def as_the_formula_says(trial: Trial) -> str | None:
    w, u, k, _ = (numbers(x).astype(float) for x in trial.case.args)
    T = k.shape[1]
    t, i = np.arange(T)[:, None], np.arange(T)
    for channel, found in enumerate(weights_by_channel(trial, 3)):
        exponents = np.where(i < t, k[:, None, :, channel] - (t - 1 - i) * w[channel], -np.inf)
        exponents[:, i, i] = u[channel] + k[:, :, channel]
        right = np.exp(exponents - exponents.max(axis=-1, keepdims=True))
        if said := out_of_proportion(found, right, "the formula", slack(trial)):
            return f"in channel {channel}, {said}"
    return None


EXERCISE = Exercise(
    name="ch09_variants/wkv",
    signature="wkv(w, u, k, v)",
    goal="Average the values so far, channel by channel, with weights exp(k) that fade by exp(-w) a step.",
    section="Moving the brackets",
    reference=rwkv.wkv,
    criteria=(
        Criterion("the mean of the values, by key, by age and with a bonus", 1, means),
        Criterion("stable: keys of 1,000 and more", 0.75, large, tolerance=IN_FLOAT32),
        Criterion("long sequences, decays large and small", 0.25, long, tolerance=IN_FLOAT32),
        Criterion("float64 and bfloat16 come back as they went in", 0.25, wide_and_narrow, tolerance=ROUGH),
        Criterion(
            "gradients reach w, u, k and v", 0.25, differentiated(soft_and_large), tolerance=IN_FLOAT32
        ),
        Criterion("works on any device", 0.25, elsewhere(soft), test=on_any_device),
        Criterion("the inputs are left as they were", 0.25, soft, observes="arguments"),
    ),
    properties=(
        *FIRST,
        Property("the first token gets its own value", the_first_is_its_own_value),
        Property("weights sum to 1", sum_to_one(3)),
        Property("nothing comes from the future", nothing_from_the_future(3, lambda trial: True)),
        Property("weights are in proportion to the formula's", as_the_formula_says),
        *LAST,
    ),
)


@EXERCISE.misconception(
    "The bonus makes no difference: it is missing, or every token has it, so that it cancels. Count the "
    "current token as exp(u + k_t), the earlier ones as exp(k_i), without u.",
    gravity="slip",
)
def no_bonus(w, u, k, v):
    peak, num, den = torch.full_like(k[:, 0], -1e30), torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
    outputs = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        top = torch.maximum(peak, k_t)
        old, new = torch.exp(peak - top), torch.exp(k_t - top)
        outputs.append((old * num + new * v_t) / (old * den + new))
        top = torch.maximum(peak - w, k_t)
        old, new = torch.exp(peak - w - top), torch.exp(k_t - top)
        peak, num, den = top, old * num + new * v_t, old * den + new
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "The token just before the current one has faded already. Decay the state after you have answered, "
    "when the current token enters it: the exponents are k_{t-1}, then k_{t-2} - w.",
    gravity="slip",
)
def last_token_faded(w, u, k, v):
    peak, num, den = torch.full_like(k[:, 0], -1e30), torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
    outputs = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        peak = peak - w
        top = torch.maximum(peak, u + k_t)
        old, new = torch.exp(peak - top), torch.exp(u + k_t - top)
        outputs.append((old * num + new * v_t) / (old * den + new))
        top = torch.maximum(peak, k_t)
        old, new = torch.exp(peak - top), torch.exp(k_t - top)
        peak, num, den = top, old * num + new * v_t, old * den + new
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "Your running maximum does not start low enough: for keys far below it every exponential is 0. "
    "Start below every key: at -inf or -1e38, or with the first key itself."
)
def maximum_from_minus_10000(w, u, k, v):
    peak, num, den = torch.full_like(k[:, 0], -1e4), torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
    outputs = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        top = torch.maximum(peak, u + k_t)
        old, new = torch.exp(peak - top), torch.exp(u + k_t - top)
        outputs.append((old * num + new * v_t) / (old * den + new))
        top = torch.maximum(peak - w, k_t)
        old, new = torch.exp(peak - w - top), torch.exp(k_t - top)
        peak, num, den = top, old * num + new * v_t, old * den + new
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "The bonus stays in the state. Give it to the current token only: one step later the same token "
    "counts as exp(k), without u.",
    gravity="slip",
)
def bonus_kept(w, u, k, v):
    peak, num, den = torch.full_like(k[:, 0], -1e30), torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
    outputs = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        top = torch.maximum(peak, u + k_t)
        old, new = torch.exp(peak - top), torch.exp(u + k_t - top)
        num, den = old * num + new * v_t, old * den + new
        outputs.append(num / den)
        peak = top - w
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "The current token is left out, and the first one gets 0/0. Let it take part in its own mean, with "
    "the bonus: exp(u + k_t)."
)
def current_left_out(w, u, k, v):
    peak, num, den = torch.full_like(k[:, 0], -1e30), torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
    outputs = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        outputs.append(num / den)
        top = torch.maximum(peak - w, k_t)
        old, new = torch.exp(peak - w - top), torch.exp(k_t - top)
        peak, num, den = top, old * num + new * v_t, old * den + new
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "The current token is counted twice, in the state and with the bonus. Answer first, then let it "
    "enter the state.",
    gravity="slip",
)
def current_counted_twice(w, u, k, v):
    peak, num, den = torch.full_like(k[:, 0], -1e30), torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
    outputs = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        top = torch.maximum(peak - w, k_t)
        old, new = torch.exp(peak - w - top), torch.exp(k_t - top)
        peak, num, den = top, old * num + new * v_t, old * den + new
        top = torch.maximum(peak, u + k_t)
        old, new = torch.exp(peak - top), torch.exp(u + k_t - top)
        outputs.append((old * num + new * v_t) / (old * den + new))
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "You return the sum without dividing it. Keep both sums: a mean is the sum of weight times value "
    "over the sum of the weights.",
    gravity="useless",
)
def not_divided(w, u, k, v):
    num, outputs = torch.zeros_like(k[:, 0]), []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        outputs.append(num + torch.exp(u + k_t) * v_t)
        num = torch.exp(-w) * num + torch.exp(k_t) * v_t
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "The current token is in your numerator and not in your denominator: the weights sum to more than "
    "1. Add exp(u + k_t) to both."
)
def denominator_without_the_current(w, u, k, v):
    num, den, outputs = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        outputs.append((num + torch.exp(u + k_t) * v_t) / (den + 1e-9))
        num, den = torch.exp(-w) * num + torch.exp(k_t) * v_t, torch.exp(-w) * den + torch.exp(k_t)
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "Your exponentials leave the range of floats: exp(1000) is infinite, and exp(-1000) is 0. Keep the "
    "largest exponent so far beside both sums, and divide them by its exponential."
)
def overflow(w, u, k, v):
    num, den, outputs = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        bonus = torch.exp(u + k_t)
        outputs.append((num + bonus * v_t) / (den + bonus))
        num, den = torch.exp(-w) * num + torch.exp(k_t) * v_t, torch.exp(-w) * den + torch.exp(k_t)
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "One maximum for the whole sequence leaves 0/0 where the keys so far are far below it: every weight "
    "there is 0. Subtract at each token the maximum of what it sees."
)
def one_maximum_for_all(w, u, k, v):
    k = k - torch.maximum(k, u + k).amax(dim=1, keepdim=True)
    num, den, outputs = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        bonus = torch.exp(u + k_t)
        outputs.append((num + bonus * v_t) / (den + bonus))
        num, den = torch.exp(-w) * num + torch.exp(k_t) * v_t, torch.exp(-w) * den + torch.exp(k_t)
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "You subtract the largest key of the whole sequence. Where the keys so far are far below it, 0/0 is "
    "left, and the bonus can lift u + k_t far above it. Subtract at each token the maximum of what it "
    "sees."
)
def largest_key_for_all(w, u, k, v):
    k = k - k.amax(dim=1, keepdim=True)
    num, den, outputs = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        bonus = torch.exp(u + k_t)
        outputs.append((num + bonus * v_t) / (den + bonus))
        num, den = torch.exp(-w) * num + torch.exp(k_t) * v_t, torch.exp(-w) * den + torch.exp(k_t)
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "The sums fade and your maximum does not: long after a large key every exponential is 0, and 0/0 is "
    "left. Take w off the maximum as well, and compare peak - w with k_t."
)
def maximum_does_not_fade(w, u, k, v):
    peak, num, den = torch.full_like(k[:, 0], -1e30), torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
    outputs = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        top = torch.maximum(peak, u + k_t)
        old, new = torch.exp(peak - top), torch.exp(u + k_t - top)
        outputs.append((old * num + new * v_t) / (old * den + new))
        top = torch.maximum(peak, k_t)
        old, new = torch.exp(peak - w - top), torch.exp(k_t - top)
        peak, num, den = top, old * num + new * v_t, old * den + new
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "Your numerator fades and your denominator does not. Multiply both by exp(-w) at every step: both "
    "are sums over the same weights."
)
def denominator_not_faded(w, u, k, v):
    num, den, outputs = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        bonus = torch.exp(u + k_t)
        outputs.append((num + bonus * v_t) / (den + bonus))
        num, den = torch.exp(-w) * num + torch.exp(k_t) * v_t, den + torch.exp(k_t)
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception("You multiply u and k_t. Add the bonus to the key: exp(u + k_t).")
def bonus_times_key(w, u, k, v):
    num, den, outputs = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        bonus = torch.exp(u * k_t)
        outputs.append((num + bonus * v_t) / (den + bonus))
        num, den = torch.exp(-w) * num + torch.exp(k_t) * v_t, torch.exp(-w) * den + torch.exp(k_t)
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "Your maximum does not know the bonus: u + k_t can be far above it, and exp overflows. For the "
    "answer take the larger of the state's maximum and u + k_t."
)
def maximum_without_the_bonus(w, u, k, v):
    peak, num, den = torch.full_like(k[:, 0], -1e30), torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
    outputs = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        top = torch.maximum(peak, k_t)
        old, new = torch.exp(peak - top), torch.exp(u + k_t - top)
        outputs.append((old * num + new * v_t) / (old * den + new))
        top = torch.maximum(peak - w, k_t)
        old, new = torch.exp(peak - w - top), torch.exp(k_t - top)
        peak, num, den = top, old * num + new * v_t, old * den + new
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "Your sums are not rescaled when the maximum changes. Multiply them by exp(old - new): they were "
    "divided by exp(old maximum).",
    gravity="useless",
)
def sums_not_rescaled(w, u, k, v):
    peak, num, den = torch.full_like(k[:, 0], -1e30), torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
    outputs = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        top = torch.maximum(peak, u + k_t)
        new = torch.exp(u + k_t - top)
        outputs.append((num + new * v_t) / (den + new))
        top = torch.maximum(peak - w, k_t)
        new = torch.exp(k_t - top)
        peak, num, den = top, torch.exp(-w) * num + new * v_t, torch.exp(-w) * den + new
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "Your weights grow with age: exp(+w) is above 1. Multiply by exp(-w) at every step: the older a "
    "token is, the less it counts."
)
def grows_with_age(w, u, k, v):
    peak, num, den = torch.full_like(k[:, 0], -1e30), torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
    outputs = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        top = torch.maximum(peak, u + k_t)
        old, new = torch.exp(peak - top), torch.exp(u + k_t - top)
        outputs.append((old * num + new * v_t) / (old * den + new))
        top = torch.maximum(peak + w, k_t)
        old, new = torch.exp(peak + w - top), torch.exp(k_t - top)
        peak, num, den = top, old * num + new * v_t, old * den + new
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "Nothing fades: a token of long ago counts as much as the last one. Subtract w from its exponent at "
    "every step."
)
def no_decay(w, u, k, v):
    peak, num, den = torch.full_like(k[:, 0], -1e30), torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
    outputs = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        top = torch.maximum(peak, u + k_t)
        old, new = torch.exp(peak - top), torch.exp(u + k_t - top)
        outputs.append((old * num + new * v_t) / (old * den + new))
        top = torch.maximum(peak, k_t)
        old, new = torch.exp(peak - top), torch.exp(k_t - top)
        peak, num, den = top, old * num + new * v_t, old * den + new
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "Your sums are multiplied by w itself. Multiply them by exp(-w) at every step: w is a rate in the "
    "exponent."
)
def multiplied_by_w(w, u, k, v):
    num, den, outputs = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        bonus = torch.exp(u + k_t)
        outputs.append((num + bonus * v_t) / (den + bonus))
        num, den = w * num + torch.exp(k_t) * v_t, w * den + torch.exp(k_t)
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "Your decay is exp(-exp(w)), as for a parameter without bounds in RWKV's code. Use exp(-w): here w "
    "is the rate itself and above 0.",
    gravity="slip",
)
def exp_of_exp(w, u, k, v):
    w = torch.exp(w)
    peak, num, den = torch.full_like(k[:, 0], -1e30), torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
    outputs = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        top = torch.maximum(peak, u + k_t)
        old, new = torch.exp(peak - top), torch.exp(u + k_t - top)
        outputs.append((old * num + new * v_t) / (old * den + new))
        top = torch.maximum(peak - w, k_t)
        old, new = torch.exp(peak - w - top), torch.exp(k_t - top)
        peak, num, den = top, old * num + new * v_t, old * den + new
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "The current token's weight is multiplied by u. Add the bonus to its key: exp(u + k_t), which is "
    "exp(u) times exp(k_t)."
)
def multiplied_by_u(w, u, k, v):
    num, den, outputs = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        bonus = u * torch.exp(k_t)
        outputs.append((num + bonus * v_t) / (den + bonus))
        num, den = torch.exp(-w) * num + torch.exp(k_t) * v_t, torch.exp(-w) * den + torch.exp(k_t)
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "Your sums run over all tokens, later ones too. Let token t see those before it and itself: the "
    "weights of i > t are 0.",
    gravity="useless",
)
def future_included(w, u, k, v):
    t = torch.arange(k.shape[1], device=k.device)
    age = (t[:, None] - 1 - t)[..., None] * w
    exponents = k[:, None] - torch.where(t[:, None, None] == t[:, None], -u, age)
    return (torch.softmax(exponents, dim=2) * v[:, None]).sum(dim=2)


@EXERCISE.misconception(
    "Your exponentials overflow after some hundred steps, as exp(+w t) with cumulative sums does. Let "
    "the state fade step by step, or use differences of exponents, which stay small."
)
def growing_factors(w, u, k, v):
    k0 = k - k.amax(dim=1, keepdim=True)
    ages = torch.arange(k.shape[1], device=k.device, dtype=k.dtype)[:, None] * w
    weight = torch.exp(k0 + ages)
    num, den = (weight * v).cumsum(1) - weight * v, weight.cumsum(1) - weight
    fade, bonus = torch.exp(w - ages), torch.exp(u + k0)
    return (fade * num + bonus * v) / (fade * den + bonus)


@EXERCISE.misconception(
    "No gradient reaches the keys and values of earlier tokens, nor w: the state is cut off from them, "
    "as by .detach(). Let the gradient flow through the state."
)
def state_detached(w, u, k, v):
    peak, num, den = torch.full_like(k[:, 0], -1e30), torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
    outputs = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        peak, num, den = peak.detach(), num.detach(), den.detach()
        top = torch.maximum(peak, u + k_t)
        old, new = torch.exp(peak - top), torch.exp(u + k_t - top)
        outputs.append((old * num + new * v_t) / (old * den + new))
        top = torch.maximum(peak - w, k_t)
        old, new = torch.exp(peak - w - top), torch.exp(k_t - top)
        peak, num, den = top, old * num + new * v_t, old * den + new
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "An operation in place, such as `num *= ...`, writes over numbers that autograd needs, and backward "
    "fails. Write num = ... * num + ..., which makes a new tensor."
)
def sums_changed_in_place(w, u, k, v):
    peak, num, den = torch.full_like(k[:, 0], -1e30), torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
    outputs = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        top = torch.maximum(peak, u + k_t)
        old, new = torch.exp(peak - top), torch.exp(u + k_t - top)
        outputs.append((old * num + new * v_t) / (old * den + new))
        top = torch.maximum(peak - w, k_t)
        old, new = torch.exp(peak - w - top), torch.exp(k_t - top)
        num *= old
        num += new * v_t
        den *= old
        den += new
        peak = top
    return torch.stack(outputs, dim=1)


@EXERCISE.misconception(
    "Some of your tensors are float32 on the cpu, whatever comes in. Use zeros_like(k[:, 0]), or pass "
    "dtype=k.dtype, device=k.device to torch.zeros and torch.full."
)
def float32_on_the_cpu(w, u, k, v):
    B, T, d = k.shape
    peak, num, den = torch.full((B, d), -1e30), torch.zeros(B, d), torch.zeros(B, d)
    out = torch.zeros(B, T, d)
    for t in range(T):
        top = torch.maximum(peak, u + k[:, t])
        old, new = torch.exp(peak - top), torch.exp(u + k[:, t] - top)
        out[:, t] = (old * num + new * v[:, t]) / (old * den + new)
        top = torch.maximum(peak - w, k[:, t])
        old, new = torch.exp(peak - w - top), torch.exp(k[:, t] - top)
        peak, num, den = top, old * num + new * v[:, t], old * den + new
    return out


@EXERCISE.misconception(
    "You write into the caller's keys, as `k -= ...` does. Write k = k - ..., which makes a new tensor."
)
def keys_changed_in_place(w, u, k, v):
    k -= k.amax(dim=1, keepdim=True)
    peak, num, den = torch.full_like(k[:, 0], -1e30), torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
    outputs = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        top = torch.maximum(peak, u + k_t)
        old, new = torch.exp(peak - top), torch.exp(u + k_t - top)
        outputs.append((old * num + new * v_t) / (old * den + new))
        top = torch.maximum(peak - w, k_t)
        old, new = torch.exp(peak - w - top), torch.exp(k_t - top)
        peak, num, den = top, old * num + new * v_t, old * den + new
    return torch.stack(outputs, dim=1)


@EXERCISE.style("step by step, with a running maximum")
def step_by_step(w, u, k, v):
    peak = torch.full_like(k[:, 0], -torch.inf)
    num, den = torch.zeros_like(peak), torch.zeros_like(peak)
    outputs = []
    for t in range(k.shape[1]):
        k_t, v_t = k[:, t], v[:, t]
        top = torch.maximum(peak, u + k_t)
        old, new = torch.exp(peak - top), torch.exp(u + k_t - top)
        outputs.append((old * num + new * v_t) / (old * den + new))
        top = torch.maximum(peak - w, k_t)
        old, new = torch.exp(peak - w - top), torch.exp(k_t - top)
        num, den, peak = old * num + new * v_t, old * den + new, top
    return torch.stack(outputs, dim=1)


@EXERCISE.style("all exponents of all pairs, and a softmax over the tokens seen")
def softmax_over_pairs(w, u, k, v):
    T = k.shape[1]
    t = torch.arange(T, device=k.device)
    age = (t[:, None] - 1 - t).clamp(min=0)[..., None]
    exponents = k[:, None] - age * w
    now = torch.eye(T, dtype=torch.bool, device=k.device)[..., None]
    exponents = torch.where(now, (u + k)[:, None], exponents)
    later = (t > t[:, None])[..., None]
    weights = torch.softmax(exponents.masked_fill(later, -torch.inf), dim=2)
    return torch.einsum("btid,bid->btd", weights, v)


@EXERCISE.style("each token by itself: a softmax over its own past")
def token_by_token(w, u, k, v):
    outputs = []
    for t in range(k.shape[1]):
        steps_back = torch.arange(t - 1, -1, -1, device=k.device, dtype=k.dtype)
        past = k[:, :t] - steps_back[:, None] * w
        exponents = torch.cat([past, (u + k[:, t]).unsqueeze(1)], dim=1)
        outputs.append((torch.softmax(exponents, 1) * v[:, : t + 1]).sum(1))
    return torch.stack(outputs, 1)


@EXERCISE.style("the state is a mean and the logarithm of its weight")
def running_mean(w, u, k, v):
    mean, log_weight = torch.zeros_like(k[:, 0]), torch.full_like(k[:, 0], -1e30)
    outputs = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        outputs.append(mean + torch.sigmoid(u + k_t - log_weight) * (v_t - mean))
        log_weight = log_weight - w
        mean = mean + torch.sigmoid(k_t - log_weight) * (v_t - mean)
        log_weight = torch.logaddexp(log_weight, k_t)
    return torch.stack(outputs, dim=1)


@EXERCISE.style("in float64, written into the result")
def written_into_the_result(w, u, k, v):
    out = torch.empty_like(v)
    w, u, key, value = (x.to(torch.float64) for x in (w, u, k, v))
    a = b = torch.zeros_like(key[:, 0])
    p = torch.full_like(a, -1e38)
    for t in range(k.shape[1]):
        q = torch.maximum(p, u + key[:, t])
        e1, e2 = torch.exp(p - q), torch.exp(u + key[:, t] - q)
        out[:, t] = ((e1 * a + e2 * value[:, t]) / (e1 * b + e2)).to(out.dtype)
        q = torch.maximum(p - w, key[:, t])
        e1, e2 = torch.exp(p - w - q), torch.exp(key[:, t] - q)
        a, b, p = e1 * a + e2 * value[:, t], e1 * b + e2, q
    return out


@EXERCISE.style("positive and negative parts of the values as logarithms, summed by logcumsumexp")
def logarithms(w, u, k, v):
    dtype = k.dtype
    w, u, k, v = (x.double() for x in (w, u, k, v))
    shift = v.detach().abs().max() + 1
    ages = torch.arange(k.shape[1], device=k.device)[:, None] * w
    nothing = torch.full_like(k[:, :1], -1e30)

    def past(x):
        sums = torch.logcumsumexp(x + ages, dim=1)[:, :-1]
        return torch.cat([nothing, sums], dim=1) - ages + w

    top, bottom = past(k + torch.log(v + shift)), past(k)
    num = torch.logaddexp(top, u + k + torch.log(v + shift))
    den = torch.logaddexp(bottom, u + k)
    return (torch.exp(num - den) - shift).to(dtype)
