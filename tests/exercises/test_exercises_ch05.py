"""Positions: what is published gets full marks, and a mistake that no bank knows is told where it lies."""

import math

import numpy as np
import pytest
import torch
from exercise_bank import report_on

from autograder import exercises
from autograder.checking.candidate import local
from autograder.checking.examination import examine
from autograder.student import PUBLIC_SEED


def table_of_angles(max_seq_len, d_model):
    """As tutorials do it: an angle for each channel, and every second column replaced in place."""
    if d_model % 2:
        raise ValueError("an even width, please")
    table = np.array(
        [[p / np.power(10000, 2 * (c // 2) / d_model) for c in range(d_model)] for p in range(max_seq_len)]
    )
    table[:, 0::2] = np.sin(table[:, 0::2])
    table[:, 1::2] = np.cos(table[:, 1::2])
    return table


def buffer_of_a_module(max_seq_len, d_model):
    """As a torch module keeps it: float32, frequencies through the exponential, an axis for the batch."""
    if d_model % 2:
        raise ValueError
    rates = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    angles = torch.arange(max_seq_len).unsqueeze(1) * rates
    buffer = torch.zeros(1, max_seq_len, d_model)
    buffer[0, :, 0::2] = torch.sin(angles)
    buffer[0, :, 1::2] = torch.cos(angles)
    return buffer[0].numpy()


def exponential_of_a_generator(k, d_model):
    from scipy.linalg import block_diag, expm

    rates = 10000.0 ** (-np.arange(0, d_model, 2) / d_model)
    return expm(k * block_diag(*(rate * np.array([[0, 1], [-1, 0]]) for rate in rates)))


def llama(x, positions, base=10000.0):
    """transformers' Llama: its module for the angles, its function for the turn."""
    from transformers.models.llama.modeling_llama import (
        LlamaConfig,
        LlamaRotaryEmbedding,
        apply_rotary_pos_emb,
    )

    config = LlamaConfig(hidden_size=x.shape[-1], num_attention_heads=1, head_dim=x.shape[-1])
    config.rope_parameters = {"rope_type": "default", "rope_theta": base}
    cos, sin = LlamaRotaryEmbedding(config)(x, positions[None])
    heads = x.reshape(1, -1, *x.shape[-2:])
    return apply_rotary_pos_emb(heads, heads, cos, sin)[0].reshape(x.shape)


def cached_cosines(x, positions, base=10000.0):
    """As torchtune does it: a cache up to the last position, looked up; a turn in float32, and back."""
    d = x.shape[-1]
    rates = 1.0 / base ** (torch.arange(0, d, 2, device=x.device).float() / d)
    every = torch.arange(int(positions.max()) + 1, device=x.device).float()
    angles = torch.einsum("t,i->ti", every, rates)
    cos, sin = torch.stack([angles.cos(), angles.sin()])[:, positions]
    pairs = x.float().unflatten(-1, (2, -1)).movedim(-2, -1)
    turned = [pairs[..., 0] * cos - pairs[..., 1] * sin, pairs[..., 1] * cos + pairs[..., 0] * sin]
    return torch.stack(turned, dim=-1).movedim(-1, -2).flatten(-2).type_as(x)


def through_neighbours(x, positions, base=10000.0):
    """As Meta's Llama does it: a permutation to neighbours, their turn as complex numbers, and back."""
    d = x.shape[-1]
    rates = 1.0 / base ** (torch.arange(0, d, 2, device=x.device).float() / d)
    turn = torch.polar(torch.ones(1, device=x.device), torch.outer(positions, rates))
    neighbours = x.unflatten(-1, (2, d // 2)).transpose(-1, -2).float().contiguous()
    turned = torch.view_as_real(torch.view_as_complex(neighbours) * turn)
    return turned.transpose(-1, -2).flatten(-2).to(x.dtype)


def bloom(num_heads, q_len, k_len):
    """transformers' BLOOM for the slopes; its keys' positions become distances."""
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    ramps = build_alibi_tensor(torch.ones(1, 2), num_heads, torch.float32)
    slopes = (ramps[:, 0, 1] - ramps[:, 0, 0])[:, None, None]
    distance = torch.arange(k_len)[None, :] - torch.arange(k_len)[:, None]
    return -slopes * distance.abs()[None, -q_len:]


def t5(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    from transformers.models.t5.modeling_t5 import T5Attention

    return T5Attention._relative_position_bucket(relative_position, bidirectional, num_buckets, max_distance)


def yarn(d, base, factor, original_max_len, beta_fast=32, beta_slow=1):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    if d % 2:
        raise ValueError("an odd number of channels")
    scaling = {"rope_type": "yarn", "factor": factor, "beta_fast": beta_fast, "beta_slow": beta_slow}
    scaling |= {"original_max_position_embeddings": original_max_len, "truncate": False, "rope_theta": base}
    config = LlamaConfig(head_dim=d, max_position_embeddings=original_max_len, rope_parameters=scaling)
    return ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")


HERE = {
    table_of_angles: "sinusoidal_encoding",
    buffer_of_a_module: "sinusoidal_encoding",
    exponential_of_a_generator: "shift_matrix",
    cached_cosines: "apply_rope",
    through_neighbours: "apply_rope",
}
IN_A_LIBRARY = {llama: "apply_rope", bloom: "alibi_bias", t5: "t5_relative_bucket", yarn: "yarn_frequencies"}


@pytest.mark.parametrize("seed", [PUBLIC_SEED, 7])
@pytest.mark.parametrize(
    "function",
    [*HERE, *(pytest.param(f, marks=pytest.mark.slow) for f in IN_A_LIBRARY)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_is_published_gets_full_marks(function, seed):
    exercise = exercises.find(f"ch05_positions/{(HERE | IN_A_LIBRARY)[function]}")
    report = examine(exercise, local(function), seed)  # a student may not call these libraries
    assert report.passed, report


def rope(x, angles, sign=1):
    a, b = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), sign * angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).to(x.dtype)


def rates(x, base):
    d = x.shape[-1]
    return base ** -(torch.arange(0, d, 2, device=x.device) / d)


def sinusoids(positions, rates):
    angles = np.asarray(positions)[:, None] * rates
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(len(angles), -1)


def even(d):
    if d % 2:
        raise ValueError
    return np.arange(0, d, 2)


def rotations(angles):
    M = np.zeros((2 * len(angles), 2 * len(angles)))
    for i, a in enumerate(angles):
        M[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]]
    return M


def distance(q_len, k_len):
    return (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()


def slopes(n):
    return torch.tensor([2 ** (-8 * h / n) for h in range(1, n + 1)])[:, None, None]


def bucket(r, per_side, exact, max_distance, by):
    n = r.abs()
    far = exact + (by(n / exact) / by(torch.tensor(max_distance / exact)) * (per_side - exact)).long()
    return (r > 0) * per_side + torch.where(n < exact, n, far.clamp(max=per_side - 1))


ROUNDED = {
    "positions_in_half_precision": lambda x, p, omega: p.to(x.dtype).float() * omega(torch.float32),
    "positions_in_bfloat16": lambda x, p, omega: p.bfloat16().float() * omega(torch.float32),
    "positions_in_float16": lambda x, p, omega: p.half().float() * omega(torch.float32),
    "angles_rounded_at_the_end": lambda x, p, omega: (p * omega(torch.float32)).to(x.dtype),
    "angles_in_half_precision": lambda x, p, omega: p.to(x.dtype) * omega(torch.float32).to(x.dtype),
    "all_in_half_precision": lambda x, p, omega: p.to(x.dtype) * omega(x.dtype),
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [PUBLIC_SEED, 7])
@pytest.mark.parametrize("name", ROUNDED)
def test_what_is_rounded_on_the_way_to_the_angles_is_named(name, seed):
    def apply_rope(x, positions, base=10000.0):
        d = x.shape[-1]

        def omega(dtype):
            return base ** -(torch.arange(0, d, 2, device=x.device, dtype=dtype) / d)

        return rope(x, ROUNDED[name](x, positions[:, None], omega)).to(x.dtype)

    assert report_on("apply_rope", apply_rope, seed).diagnosis == name


WRONG = {
    "sinusoids: degrees": (
        "sinusoidal_encoding",
        lambda T, d: sinusoids(np.arange(T) * np.pi / 180, 10000 ** (-even(d) / d)),
        "at position 1, channels 0 and 1 are sine and cosine of 0.01745; the angle should be 1 / 10000^(0/2)",
    ),
    "sinusoids: backwards": (
        "sinusoidal_encoding",
        lambda T, d: sinusoids(np.arange(T)[::-1], 10000 ** (-even(d) / d)),
        "position 0 holds",
    ),
    "sinusoids: times sqrt(d)": (
        "sinusoidal_encoding",
        lambda T, d: sinusoids(np.arange(T), 10000 ** (-even(d) / d)) * np.sqrt(d),
        "position 0 holds 1.414 on an odd channel; it should be cos 0 = 1",
    ),
    "sinusoids: slow ones first": (
        "sinusoidal_encoding",
        lambda T, d: sinusoids(np.arange(T), 10000 ** (-even(d) / d)[::-1]),
        "at position 1, channels 0 and 1 are sine and cosine of 0.01; the angle should be 1 / 10000^(0/4)",
    ),
    "sinusoids: scaled to the longest": (
        "sinusoidal_encoding",
        lambda T, d: sinusoids(np.arange(T) * 2 * np.pi / T, 10000 ** (-even(d) / d)),
        "the vector of a position must not depend on how many positions follow",
    ),
    "sinusoids: sin of both": (
        "sinusoidal_encoding",
        lambda T, d: sinusoids(np.arange(T), 10000 ** (-even(d) / d)) * [1, 0.5] * 1 if d == 2 else even(d),
        "position 0 holds 0.5",
    ),
    "shift: one step too far": (
        "shift_matrix",
        lambda k, d: rotations((k + 1) * 10000 ** (-even(d) / d)),
        "(M @ PE[0])[0] is 0.9093, and PE[1][0] is 0.8415; they should be equal",
    ),
    "shift: k ignored": (
        "shift_matrix",
        lambda k, d: rotations(10000 ** (-even(d) / d)),
        "(M @ PE[0])[0] is 0.8415, and PE[3][0] is 0.1411",
    ),
    "shift: a base of 1000": (
        "shift_matrix",
        lambda k, d: rotations(k * 1000 ** (-even(d) / d)),
        "your frequencies are 1000^(-2i/d_model); the base is 10000",
    ),
    "shift: a base of 9999": (
        "shift_matrix",
        lambda k, d: rotations(k * 9999 ** (-even(d) / d)),
        "your frequencies are 9999^(-2i/d_model); the base is 10000",
    ),
    "sinusoids: a base of 10001": (
        "sinusoidal_encoding",
        lambda T, d: sinusoids(np.arange(T), 10001 ** (-even(d) / d)),
        "your frequencies are 10001^(-2i/d_model); the base is 10000",
    ),
    "shift: cosines halved": (
        "shift_matrix",
        lambda k, d: rotations(k * 10000 ** (-even(d) / d)) * 0.5,
        "column 0 of M has length 0.5; M only turns",
    ),
    "shift: the encoding in every row": (
        "shift_matrix",
        lambda k, d: np.tile(sinusoids([k], 10000 ** (-even(d) / d)), (d, 1)),
        "M[0, 2] is",
    ),
    "rope: positions squared": (
        "apply_rope",
        lambda x, positions, base=10000.0: rope(x, positions[:, None] ** 2 * rates(x, base)),
        "the score must depend on their distance alone",
    ),
    "rope: turns for radians": (
        "apply_rope",
        lambda x, positions, base=10000.0: rope(x, 2 * math.pi * positions[:, None] * rates(x, base)),
        "you turn channels 0 and 1 by",
    ),
    "rope: degrees": (
        "apply_rope",
        lambda x, positions, base=10000.0: rope(x, positions[:, None] * rates(x, base) * math.pi / 180),
        "at position 1 you turn channels 0 and 1 by 0.0175; the angle should be 1 * 10000^(0/2) = 1",
    ),
    "rope: slow pairs first": (
        "apply_rope",
        lambda x, positions, base=10000.0: rope(x, positions[:, None] * rates(x, base).flip(0)),
        "at position 1 you turn channels 0 and 2 by 0.01; the angle should be 1 * 10000^(0/4) = 1",
    ),
    "rope: from the end": (
        "apply_rope",
        lambda x, positions, base=10000.0: rope(x, (positions - positions.max())[:, None] * rates(x, base)),
        "at position 0 every angle is 0 and nothing turns",
    ),
    "rope: stretched": (
        "apply_rope",
        lambda x, positions, base=10000.0: rope(x, positions[:, None] * rates(x, base)) * 1.5,
        "at position 0 every angle is 0 and nothing turns",
    ),
    "alibi: sloping by half": (
        "alibi_bias",
        lambda n, q, k: -slopes(n) * distance(q, k) / 2,
        "of 2 heads, head 0 has the slope 0.03125; it should be 2^-4 = 0.0625",
    ),
    "alibi: a logarithm": (
        "alibi_bias",
        lambda n, q, k: -slopes(n) * torch.log1p(distance(q, k)),
        "each step away from the query costs the same",
    ),
    "alibi: 2^(-h/8)": (
        "alibi_bias",
        lambda n, q, k: (
            -torch.tensor([2 ** (-h / 8) for h in range(1, n + 1)])[:, None, None] * distance(q, k)
        ),
        "of 2 heads, head 0 has the slope 0.917; it should be 2^-4 = 0.0625",
    ),
    "alibi: one step off": (
        "alibi_bias",
        lambda n, q, k: -slopes(n) * (distance(q, k) + 1),
        "the distance is 0 there, and your bias of head 0 is -0.0625",
    ),
    "alibi: 1 - slope * distance": (
        "alibi_bias",
        lambda n, q, k: 1 - slopes(n) * distance(q, k),
        "the distance is 0 there, and your bias of head 0 is 1",
    ),
    "t5: counted from 1": (
        "t5_relative_bucket",
        lambda r, bidirectional=True, num_buckets=32, max_distance=128: bucket(r, 16, 8, 128, torch.log) + 1,
        "a token itself, at distance 0, has bucket 0; yours is 1",
    ),
    "t5: a root for the logarithm": (
        "t5_relative_bucket",
        lambda r, bidirectional=True, num_buckets=32, max_distance=128: bucket(r, 16, 8, 128, torch.sqrt),
        "the relative position 12",
    ),
    "t5: a third of a side is exact": (
        "t5_relative_bucket",
        lambda r, bidirectional=True, num_buckets=32, max_distance=128: bucket(r, 16, 5, 128, torch.log),
        "distance 12 is ln(12/8) / ln(128/8) * 8 = 1.17 buckets beyond the exact ones",
    ),
    "t5: distances beyond wrap": (
        "t5_relative_bucket",
        lambda r, bidirectional=True, num_buckets=32, max_distance=128: bucket(
            r.sign() * (r.abs() % 128), 16, 8, 128, torch.log
        ),
        "below bucket",
    ),
    "t5: stretched to the next number": (
        "t5_relative_bucket",
        lambda r, bidirectional=True, num_buckets=32, max_distance=128: (
            bucket(r, 16, 8, 128, torch.log) * (32 / 31)
        ),
        "the first 8 hold one distance each, 0 to 7; the relative position -1 gets bucket 1.03226",
    ),
}


def test_a_table_remembered_by_its_size_is_told_by_its_angles():
    tables = {}

    def apply_rope(x, positions, base=10000.0):
        size = (*x.shape[-2:], base, x.dtype)
        if size not in tables:
            omega = base ** -(torch.arange(0, size[1], 2) / size[1])
            angles = positions[:, None].double() * omega
            tables[size] = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        (cos, sin), (one, two) = tables[size], x.chunk(2, dim=-1)
        return torch.cat([one * cos - two * sin, one * sin + two * cos], dim=-1)

    report = report_on("ch05_positions/apply_rope", apply_rope)
    assert report.criteria[0].failure
    assert "you turn channels" in str(report)


@pytest.mark.slow
@pytest.mark.parametrize("case", WRONG)
def test_an_unknown_mistake_is_told_by_its_smallest_case(case):
    name, wrong, sentence = WRONG[case]
    report = report_on(f"ch05_positions/{name}", wrong)
    assert not report.passed
    assert sentence in str(report), report
