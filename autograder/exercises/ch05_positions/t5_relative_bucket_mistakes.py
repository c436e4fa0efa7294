"""Mistakes that people make in `t5_relative_bucket`, each with the hint for its author."""

from __future__ import annotations

import math

import torch

from autograder.exercises.ch05_positions.t5_relative_bucket import EXERCISE


@EXERCISE.misconception(
    "Your sides are exchanged: you read the relative position as query minus key. It is key minus "
    "query: negative for a key behind, positive for one ahead.",
    gravity="slip",
)
def query_minus_key(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    relative_position = -relative_position
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "Your halves are exchanged. Give keys *ahead* (above 0) the second half of the buckets, and keys "
    "behind the first.",
    gravity="slip",
)
def halves_exchanged(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position < 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "A token counts itself as ahead. Ahead is > 0, not >= 0: give the distance 0 bucket 0.",
    gravity="slip",
)
def zero_counted_as_ahead(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position >= 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "A key 3 ahead and a key 3 behind share a bucket. Keep the sign: add num_buckets // 2 for keys "
    "ahead, so that they get the second half."
)
def one_side_for_both(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    if bidirectional:
        num_buckets = num_buckets // 2
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "Your default of `bidirectional` is False. Write bidirectional=True in the first line of the function.",
    gravity="slip",
)
def one_way_by_default(relative_position, bidirectional=False, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "Each of your sides has all the buckets, so that there are twice as many. If bidirectional, a side has "
    "num_buckets // 2: halve first, then go on with that number."
)
def all_buckets_on_each_side(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "`bidirectional` makes no difference. If it is False, let keys ahead share bucket 0 and use all buckets "
    "for the keys behind."
)
def always_both_ways(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    num_buckets = num_buckets // 2
    side = (relative_position > 0) * num_buckets
    n = relative_position.abs()
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "If not bidirectional, keys ahead get the buckets of keys behind. Let them share bucket 0: the distance "
    "is (-relative_position).clamp(min=0)."
)
def ahead_by_distance_one_way(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
    n = relative_position.abs()
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "If not bidirectional, you use only half of the buckets. Do not halve num_buckets there: all of them are "
    "for one side."
)
def halved_one_way_too(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        num_buckets = num_buckets // 2
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "Distances of max_distance or more go beyond the last bucket of their side. Limit the far buckets "
    "before the side is added: clamp(max=b - 1), where b is the number of buckets of a side."
)
def no_clamp(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far)


@EXERCISE.misconception(
    "The last bucket of a side is one too high. Buckets count from 0: clamp each side to "
    "its number of buckets - 1.",
    gravity="slip",
)
def clamped_one_too_late(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets))


@EXERCISE.misconception(
    "Your logarithm starts at distance 1. Let it start where the exact buckets end: divide ln(n / exact) "
    "by ln(max_distance / exact)."
)
def logarithm_of_n(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n) / math.log(max_distance)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "In the denominator a division by exact is missing. Write ln(n / exact) / ln(max_distance / exact): "
    "then n = max_distance gives 1."
)
def not_all_divided_by_exact(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "Your logarithms have two bases, log2 in the numerator and ln in the denominator. Use one base for both: "
    "torch.log with math.log.",
    gravity="slip",
)
def two_bases(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log2(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "You round to the nearest bucket. A distance stays in a bucket until it reaches the next one: cut "
    "the fraction off, as .long() does.",
    gravity="slip",
)
def rounded_to_nearest(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).round().long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "Distances 8 to 15, for example, all count as 8: n / exact has lost its fraction before the logarithm. "
    "Divide n by exact with `/`; `//` drops the fraction.",
    gravity="slip",
)
def whole_number_division(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n // exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "You give every distance a bucket of its own until there are none left. Do so for the first half of "
    "a side; let the rest grow with the logarithm up to max_distance."
)
def linear_then_clamped(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    return side + n.clamp(max=num_buckets - 1)


@EXERCISE.misconception(
    "You use the logarithm for all distances. Below `exact` give each distance its own bucket: "
    "torch.where(n < exact, n, ...)."
)
def logarithm_from_the_start(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + far.clamp(0, num_buckets - 1)


@EXERCISE.misconception(
    "Your far buckets grow too fast: the logarithm is multiplied by the number of all buckets of a side. "
    "Multiply it by the number of the remaining buckets, num_buckets - exact.",
    gravity="slip",
)
def all_buckets_for_the_logarithm(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * num_buckets).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "You use the defaults 32 and 128, whatever is passed. Work out the numbers from num_buckets and "
    "max_distance, which a caller may change."
)
def numbers_of_the_default(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        side = (relative_position > 0) * 16
        n, exact, last = relative_position.abs(), 8, 15
    else:
        n, exact, last = (-relative_position).clamp(min=0), 16, 31
    far = exact + (torch.log(n / exact) / math.log(128 / exact) * exact).long()
    return side + torch.where(n < exact, n, far.clamp(max=last))


@EXERCISE.misconception(
    "`if`, `and`, `min` and `max` need one truth value, and a tensor has one for each number. Compare all at "
    "once: use torch.where, or a comparison times a number."
)
def asks_if_for_a_tensor(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = num_buckets if relative_position > 0 else 0
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "You write into the caller's tensor, as abs_() and every other method that ends in an underscore do. "
    "Take abs(), which makes a new tensor."
)
def changed_in_place(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs_()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "If not bidirectional, you write into the caller's tensor, as neg_() and clamp_() do. Leave out the "
    "underscore: neg() and clamp() make a new tensor."
)
def changed_in_place_one_way(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = relative_position.neg_().clamp_(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "A tensor that you make is on the cpu, and cannot be combined with the others on a GPU. Use "
    "torch.full_like or pass device=; clamp(max=...) needs no tensor."
)
def device_forgotten(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, torch.minimum(far, torch.full(far.shape, num_buckets - 1)))


@EXERCISE.misconception(
    "Your code fixes the number of axes at two, as `q, k = relative_position.shape` does. The input has any "
    "shape: work on all numbers at once, without asking for its sizes.",
    gravity="slip",
)
def two_axes_only(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    _, _ = relative_position.shape
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))


@EXERCISE.misconception(
    "Your number of exact buckets is not whole: num_buckets / 4 and the like keep a fraction. Divide with "
    "`//` both times: exact = per_side // 2, after per_side = num_buckets // 2.",
    gravity="slip",
)
def exact_not_whole(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    side = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        side = (relative_position > 0) * num_buckets
        n = relative_position.abs()
    else:
        n = (-relative_position).clamp(min=0)
    exact = num_buckets / 2
    ratio = torch.log(n / exact) / math.log(max_distance / exact)
    far = torch.floor(exact + ratio * (num_buckets - exact))
    return side + torch.where(n < exact, n, far.clamp(max=num_buckets - 1))
