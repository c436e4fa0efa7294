"""Positions: slips of every kind are seen, whoever writes them, and keep the points that they deserve."""

import math

import numpy as np
import pytest
import torch
from exercise_bank import report_on
from test_exercises_ch05 import even, rates, rope, rotations, sinusoids


def rope_at(positions_of):
    """A right rope, but for its positions."""

    def apply_rope(x, positions, base=10000.0):
        return rope(x, positions_of(positions)[:, None] * rates(x, base))

    return apply_rope


def rope_after(before):
    """A right rope of what `before` makes of x."""

    def apply_rope(x, positions, base=10000.0):
        return rope(before(x), positions[:, None] * rates(x, base)).reshape(x.shape)

    return apply_rope


def joined_and_parted(x):
    return x.view(-1, *x.shape[-2:])


def of_four_axes(x):
    B, h, T, d = x.shape
    return x.reshape(B * h, T, d)


def of_three_axes(x):
    B, T, d = x.shape
    return x + x.new_zeros(B, T, d)


def rope_of_1000(x, positions, base=1000.0):
    return rope(x, positions[:, None] * rates(x, base))


def rope_on_the_cpu(x, positions, base=10000.0):
    return rope(x, positions[:, None] * rates(x, base)).cpu()


def t5_with(n_of=None, write=None, halves=lambda n: n // 2):
    """T5's buckets with other distances behind, another way to write them, or another way to halve."""

    def t5_relative_bucket(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
        r, side = relative_position, 0
        if bidirectional:
            num_buckets = halves(num_buckets)
            side, n = (r > 0) * num_buckets, r.abs()
        else:
            n = n_of(r) if n_of else (-r).clamp(min=0)
        exact = num_buckets // 2
        far = exact + (torch.log(n / exact) / math.log(max_distance / exact) * (num_buckets - exact)).long()
        far = far.clamp(max=num_buckets - 1)
        return side + (write(n, far, exact) if write else torch.where(n < exact, n, far))

    return t5_relative_bucket


def all_but_one_written(n, far, exact):
    buckets = torch.empty(n.shape, dtype=torch.long, device=n.device)
    buckets[n < exact] = n[n < exact].long()
    buckets[n > exact] = far[n > exact]
    return buckets


TABLES = {}
KINDS = {
    "a table remembered by its width": (
        "sinusoidal_encoding",
        lambda T, d: TABLES.setdefault(d, sinusoids(np.arange(T), 10000 ** (-even(d) / d)))[:T],
        "expected shape (7, 4), got shape (3, 4)",
    ),
    "a table in float16": (
        "sinusoidal_encoding",
        lambda T, d: sinusoids(np.arange(T), 10000 ** (-even(d) / d)).astype(np.float16),
        "your table is float16",
    ),
    "a view of what came in": ("apply_rope", rope_after(joined_and_parted), "view size is not compatible"),
    "axes by their numbers": (
        "apply_rope",
        rope_after(lambda x: x.transpose(2, 3)),
        "Dimension out of range",
    ),
    "positions sorted": ("apply_rope", rope_at(lambda p: p.sort().values), "you turn channels"),
    "positions without gaps": ("apply_rope", rope_at(lambda p: p.min() + p.argsort()), "you turn channels"),
    "positions once each": (
        "apply_rope",
        rope_at(lambda p: torch.cat([p.unique(), p.new_zeros(len(p) - len(p.unique()))])),
        "at position 0 every angle is 0",
    ),
    "a base of whole numbers": (
        "apply_rope",
        lambda x, positions, base=10000.0: rope(x, positions[:, None] * rates(x, int(base))),
        "you turn channels",
    ),
    "zeros on the cpu, one way": (
        "t5_relative_bucket",
        t5_with(lambda r: torch.max(-r, torch.zeros(r.shape, dtype=r.dtype))),
        "on another device than the cpu",
    ),
    "half a bucket": ("t5_relative_bucket", t5_with(halves=lambda n: n / 2), "gets bucket 5.5 and not 5"),
    "a bucket that was never written": (
        "t5_relative_bucket",
        t5_with(write=all_but_one_written),
        "the buckets are 0 to",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_slips_that_no_list_foresees_are_shown(kind):
    name, wrong, sentence = KINDS[kind]
    report = report_on(f"ch05_positions/{name}", wrong)
    assert not report.passed
    assert sentence in str(report), report


NAMED = {
    "from 1": (
        "sinusoidal_encoding",
        lambda T, d: sinusoids(np.arange(1, T + 1), 10000 ** (-even(d) / d)),
        "positions_from_1",
    ),
    "1000": (
        "sinusoidal_encoding",
        lambda T, d: sinusoids(np.arange(T), 1000 ** (-even(d) / d)),
        "base_of_1000",
    ),
    "cos, sin": (
        "sinusoidal_encoding",
        lambda T, d: (
            sinusoids(np.arange(T), 10000 ** (-even(d) / d)).reshape(T, -1, 2)[..., ::-1].reshape(T, d)
        ),
        "sine_and_cosine_exchanged",
    ),
    "back": ("shift_matrix", lambda k, d: rotations(-k * 10000 ** (-even(d) / d)), "transposed"),
    "the next position": ("apply_rope", rope_at(lambda p: p + 1), "positions_from_1"),
    "the other way": ("apply_rope", rope_at(lambda p: -p), "turned_backwards"),
    "four axes": ("apply_rope", rope_after(of_four_axes), "four_axes_only"),
    "three axes": ("apply_rope", rope_after(of_three_axes), "three_axes_only"),
    "a default": ("apply_rope", rope_of_1000, "base_of_1000_by_default"),
}


@pytest.mark.parametrize("slip", NAMED)
def test_a_slip_in_other_words_is_named_and_keeps_more_than_half(slip):
    name, wrong, mistake = NAMED[slip]
    report = report_on(f"ch05_positions/{name}", wrong)
    assert report.diagnosis == mistake, report
    assert report.max_score / 2 < report.score < report.max_score


def test_a_rope_that_ignores_its_positions_earns_less_than_half():
    ignored = rope_at(lambda p: torch.arange(len(p), device=p.device))
    report = report_on("ch05_positions/apply_rope", ignored)
    assert (report.diagnosis, report.score < 2) == ("positions_ignored", True)


def test_a_rope_that_leaves_the_device_loses_that_criterion_alone():
    report = report_on("ch05_positions/apply_rope", rope_on_the_cpu)
    assert [c.says for c in report.criteria if c.failure] == ["works on any device"]
