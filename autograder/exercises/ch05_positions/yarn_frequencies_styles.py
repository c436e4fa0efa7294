"""Right answers to `yarn_frequencies`, each in a style of its own."""

from __future__ import annotations

import math

import torch

from autograder.exercises.ch05_positions.yarn_frequencies import EXERCISE


@EXERCISE.style("step by step, in float64")
def step_by_step(d, base, factor, original_max_len, beta_fast=32, beta_slow=1):
    if d % 2:
        raise ValueError(f"a turn takes two channels, so d must be even, not {d}")
    i = torch.arange(d // 2, dtype=torch.float64)
    omega = base ** (-2 * i / d)

    def pair(turns):
        return d * math.log(original_max_len / (2 * math.pi * turns)) / (2 * math.log(base))

    a, b = pair(beta_fast), pair(beta_slow)
    r = ((i - a) / (b - a)).clamp(0, 1)
    frequencies = (1 - r) * omega + r * omega / factor
    return frequencies, 0.1 * math.log(factor) + 1


@EXERCISE.style("the ramp by the logarithm of the turns, in float32")
def by_log_of_turns(d, base, factor, original_max_len, beta_fast=32, beta_slow=1):
    if d % 2 == 1:
        raise ValueError("d must be even")
    omega = 1.0 / base ** (torch.arange(0, d, 2).float() / d)
    turns = original_max_len * omega / (2 * math.pi)
    slow = torch.log(beta_fast / turns) / math.log(beta_fast / beta_slow)
    slow = slow.clamp(min=0, max=1)
    return omega * (1 - slow) + omega / factor * slow, 1 + math.log(factor) / 10


@EXERCISE.style("pair by pair, in a loop")
def in_a_loop(d, base, factor, original_max_len, beta_fast=32, beta_slow=1):
    if d // 2 * 2 != d:
        raise ValueError(f"expected an even d, got {d}")
    scale = d / 2 / math.log(base)
    begin = scale * math.log(original_max_len / beta_fast / math.tau)
    end = scale * math.log(original_max_len / beta_slow / math.tau)
    frequencies = []
    for i in range(d // 2):
        omega = base ** (-2 * i / d)
        if i <= begin:
            frequencies.append(omega)
        elif i >= end:
            frequencies.append(omega / factor)
        else:
            r = (i - begin) / (end - begin)
            frequencies.append(omega * (1 - r + r / factor))
    return torch.tensor(frequencies), 0.1 * math.log(factor) + 1.0


@EXERCISE.style("a mask of the pairs that stay, as in the published program; the temperature as a tensor")
def mask_of_fast_pairs(d, base, factor, original_max_len, beta_fast=32, beta_slow=1):
    if d % 2 != 0:
        raise ValueError("each pair takes two channels")
    divisor = base ** (torch.arange(0, d, 2, dtype=torch.float32) / d)
    kept, interpolated = 1.0 / divisor, 1.0 / (factor * divisor)
    low, high = (
        d * math.log(original_max_len / (turns * 2 * math.pi)) / (2 * math.log(base))
        for turns in (beta_fast, beta_slow)
    )
    stays = 1 - torch.clamp((torch.arange(d // 2, dtype=torch.float32) - low) / (high - low), 0, 1)
    temperature = 0.1 * torch.log(torch.tensor(float(factor))) + 1
    return interpolated * (1 - stays) + kept * stays, temperature


@EXERCISE.style("torch.lerp, with logarithms to base 10 in both places")
def by_lerp(d, base, factor, original_max_len, beta_fast=32, beta_slow=1):
    if d & 1:
        raise ValueError("d is odd")
    i = torch.arange(d // 2).double()
    omega = torch.exp(-i * 2 * math.log(base) / d)
    a, b = (
        d / 2 * math.log10(original_max_len / (2 * math.pi * turns)) / math.log10(base)
        for turns in (beta_fast, beta_slow)
    )
    ramp = torch.minimum(torch.maximum((i - a) / (b - a), torch.zeros_like(i)), torch.ones_like(i))
    return torch.lerp(omega, omega / factor, ramp), math.log(factor**0.1) + 1


@EXERCISE.style("a divisor for each pair; the temperature is 1 up to factor 1")
def by_divisors(d, base, factor, original_max_len, beta_fast=32, beta_slow=1):
    if d % 2:
        raise ValueError("odd")
    i = torch.linspace(0, d // 2 - 1, d // 2, dtype=torch.float64)
    omega = torch.tensor(float(base), dtype=torch.float64).pow(-i / (d // 2))
    a = math.log(original_max_len / (2 * math.pi * beta_fast), base) * d / 2
    width = math.log(beta_fast / beta_slow, base) * d / 2
    r = torch.clip((i - a) / width, 0, 1)
    return omega / (factor / (factor * (1 - r) + r)), 0.1 * math.log(factor) + 1 if factor > 1 else 1.0
