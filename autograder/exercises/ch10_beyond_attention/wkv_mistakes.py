"""Mistakes that people make in `wkv`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

import torch

from autograder.checking.edits import wrong
from autograder.exercises.ch10_beyond_attention.wkv import EXERCISE
from autograder.exercises.ch10_beyond_attention.wkv_styles import step_by_step

edited = partial(wrong, EXERCISE, step_by_step)


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
    "The current token is in your numerator but not in your denominator: the weights sum to more than 1. Add "
    "exp(u + k_t) to both."
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
    "The sums fade but your maximum does not: long after a large key every exponential is 0, and 0/0 is "
    "left. Subtract w from the maximum as well, and compare peak - w with k_t."
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
    "Your numerator fades but your denominator does not. Multiply both by exp(-w) at every step: both are "
    "sums over the same weights."
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
    "Your maximum leaves out the bonus: u + k_t can be far above it, and exp overflows. For the "
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
    "Your decay is exp(-exp(w)), as in RWKV's code for an unbounded parameter. Use exp(-w): here w is the "
    "rate itself and above 0.",
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
    "Your exponentials overflow after many steps, as exp(+w t) with cumulative sums does. Let the state fade "
    "step by step, or use differences of exponents, which stay small."
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


edited(
    "maximum_not_replaced",
    "The largest exponent so far is still the value from the start, so that the factor of the old sums is 0. "
    "Replace it when a token enters the sums.",
    {"old * den + new, top": "old * den + new, peak"},
)

edited(
    "keys_clamped",
    "Your results are wrong for large keys, as when keys are cut off at a bound: two keys beyond it then "
    "count alike. Keep the keys as they are, and subtract the largest exponent so far.",
    {"k_t, v_t = k[:, t], v[:, t]": "k_t, v_t = k[:, t].clamp(-60, 60), v[:, t]"},
)
