"""Mistakes that people make in `yarn_frequencies`, each with the hint for its author."""

from __future__ import annotations

import math

import torch

from autograder.checking.declaration import Gravity
from autograder.checking.edits import wrong
from autograder.exercises.ch05_positions.yarn_frequencies import EXERCISE
from autograder.exercises.ch05_positions.yarn_frequencies_styles import step_by_step

BLEND = "(1 - r) * omega + r * omega / factor"
RAMP = "r = ((i - a) / (b - a)).clamp(0, 1)"
ENDS = "a, b = pair(beta_fast), pair(beta_slow)"
POWERS = "base ** (-2 * i / d)"
LENGTH = "original_max_len / (2 * math.pi * turns)"
TEMPERATURE = "0.1 * math.log(factor) + 1"
RESULT = "return frequencies, "

BLENDS = {
    "interpolation_everywhere": (
        "All your frequencies are divided by the factor, which is position interpolation. Leave fast pairs "
        "as they are: blend by (1 - r) * omega + r * omega / factor.",
        "omega / factor",
    ),
    "no_interpolation": (
        "Your frequencies are the frequencies of plain RoPE: the factor has no effect on them. Divide slow "
        "pairs by it: (1 - r) * omega + r * omega / factor.",
        "omega",
    ),
    "ramp_reversed": (
        "Your ramp is reversed: fast pairs are divided and slow pairs stay. Begin the ramp at the pair of "
        "beta_fast, end it at that of beta_slow, and divide the pairs with r = 1.",
        "r * omega + (1 - r) * omega / factor",
    ),
    "multiplied": (
        "Your slow pairs turn faster than before: the factor multiplies. Divide their frequency by the "
        "factor, so that a longer text has the angles of the original length.",
        "(1 - r) * omega + r * omega * factor",
    ),
    "blended_periods": (
        "Between the ends of the ramp you divide by a blend of 1 and the factor. Blend the two frequencies: "
        "(1 - r) * omega + r * omega / factor.",
        "omega / (1 - r + r * factor)",
    ),
    "wavelengths": (
        "You return wavelengths, 2 pi / frequency, in positions per turn. Return frequencies, in radians per "
        "position: the first is 1.",
        f"2 * math.pi / ({BLEND})",
    ),
    "degrees": (
        "Your frequencies are in degrees. Return radians per position: the first is 1.",
        f"torch.rad2deg({BLEND})",
    ),
    "turns_per_position": (
        "You return turns per position. Return radians per position, which are 2 pi times as many: the first "
        "is 1.",
        f"({BLEND}) / (2 * math.pi)",
    ),
    "half_precision": (
        "Your frequencies are in half precision, which has three digits. Return float32 or float64.",
        f"({BLEND}).half()",
    ),
    "integers": (
        "Your frequencies are whole numbers, so that slow pairs do not turn at all. Return a floating dtype.",
        f"({BLEND}).long()",
    ),
    "once_for_each_channel": (
        "You return a frequency for each channel. Return one for each pair, (d/2,): the two channels of a "
        "pair turn together.",
        f"({BLEND}).repeat(2)",
    ),
    "half_of_the_pairs": (
        "You return every second pair. There are d/2 pairs: return the frequency of each.",
        f"({BLEND})[::2]",
    ),
    "temperature_in_the_frequencies": (
        "Your frequencies are multiplied by the temperature. Return the two separately: the temperature "
        "multiplies cosines and sines, not angles.",
        f"({BLEND}) * (0.1 * math.log(factor) + 1.0)",
    ),
}

for name, (hint, blend) in BLENDS.items():
    slip: Gravity = "slip" if name in ("half_precision", "turns_per_position", "degrees") else "fault"
    wrong(EXERCISE, step_by_step, name, hint, {BLEND: blend}, gravity=slip)

RAMPS = {
    "linear_in_turns": (
        "Your ramp is linear in the frequency, or in the number of turns. Make it linear in the number of "
        "the pair: r = (i - a) / (b - a), cut to 0 and 1.",
        "r = ((beta_fast - original_max_len * omega / (2 * math.pi)) / (beta_fast - beta_slow)).clamp(0, 1)",
    ),
    "linear_in_wavelength": (
        "Your ramp is linear in the wavelength. Make it linear in the number of the pair: "
        "r = (i - a) / (b - a), cut to 0 and 1.",
        "r = ((2 * math.pi / omega - original_max_len / beta_fast)"
        " / (original_max_len / beta_slow - original_max_len / beta_fast)).clamp(0, 1)",
    ),
    "not_clamped": (
        "Your ramp goes on below 0 and above 1, so that fast pairs become faster and slow ones too slow. Cut "
        "r to 0 and 1: .clamp(0, 1).",
        "r = (i - a) / (b - a)",
    ),
    "cut_below_only": (
        "Your ramp goes on above 1, so that slow pairs become too slow. Cut r at 1 as well as at 0: "
        ".clamp(0, 1).",
        "r = ((i - a) / (b - a)).clamp(min=0)",
    ),
    "cut_above_only": (
        "Your ramp goes on below 0, so that fast pairs become faster. Cut r at 0 as well as at 1: "
        ".clamp(0, 1).",
        "r = ((i - a) / (b - a)).clamp(max=1)",
    ),
    "a_step_at_the_end": (
        "Your pairs are divided from b on, and all others stay. Between a and b, r rises evenly: "
        "r = (i - a) / (b - a), cut to 0 and 1.",
        "r = (i >= b).double()",
    ),
    "a_step_at_the_beginning": (
        "All your pairs after a are divided by the whole factor. Between a and b, r rises evenly: "
        "r = (i - a) / (b - a), cut to 0 and 1.",
        "r = (i > a).double()",
    ),
    "pairs_from_1": (
        "Your ramp is one pair off: it counts pairs from 1. Count i from 0, as in base^(-2i/d).",
        "r = ((i + 1 - a) / (b - a)).clamp(0, 1)",
    ),
    "over_all_pairs": (
        "Your ramp rises over all pairs, whatever the betas are. Let it rise from a, the pair that turns "
        "beta_fast times in the original length, to b, the pair that turns beta_slow times.",
        "r = i / max(d // 2 - 1, 1)",
    ),
    "divided_by_the_end": (
        "Your ramp is divided by b. It rises from a to b: divide by b - a.",
        "r = ((i - a) / b).clamp(0, 1)",
    ),
}

for name, (hint, ramp) in RAMPS.items():
    slip = "slip" if name in ("cut_below_only", "cut_above_only", "pairs_from_1", "not_clamped") else "fault"
    wrong(EXERCISE, step_by_step, name, hint, {RAMP: ramp}, gravity=slip)

wrong(
    EXERCISE,
    step_by_step,
    "rounded_outwards",
    "The ends of your ramp are rounded to whole pairs, as in the published program. Here they keep their "
    "fractions: leave out floor and ceil.",
    {ENDS: "a, b = math.floor(pair(beta_fast)), math.ceil(pair(beta_slow))"},
    gravity="slip",
)
wrong(
    EXERCISE,
    step_by_step,
    "rounded_down",
    "The ends of your ramp are rounded down to whole pairs. Here they keep their fractions: leave out int, "
    "floor and //.",
    {ENDS: "a, b = int(pair(beta_fast)), int(pair(beta_slow))"},
    gravity="slip",
)
wrong(
    EXERCISE,
    step_by_step,
    "end_at_the_last_pair",
    "Your ramp ends at the last pair even if b is further on. Leave b as it is: the last pair then has an "
    "r below 1.",
    {ENDS: "a, b = pair(beta_fast), min(pair(beta_slow), d // 2 - 1)"},
    gravity="slip",
)
wrong(
    EXERCISE,
    step_by_step,
    "betas_ignored",
    "Other values of beta_fast and beta_slow change nothing: you use 32 and 1. Compute the ends of the ramp "
    "from the arguments.",
    {ENDS: "a, b = pair(32), pair(1)"},
)
wrong(
    EXERCISE,
    step_by_step,
    "without_2_pi",
    "The ends of your ramp lack 2 pi. A pair turns original_max_len * omega / (2 pi) times: solve that for "
    "the pair.",
    {LENGTH: "original_max_len / turns"},
    gravity="slip",
)
wrong(
    EXERCISE,
    step_by_step,
    "the_new_length",
    "You count turns in the new length, factor * original_max_len. Count them in the original length, which "
    "the model was trained for.",
    {LENGTH: "factor * original_max_len / (2 * math.pi * turns)"},
    gravity="slip",
)
wrong(
    EXERCISE,
    step_by_step,
    "length_ignored",
    "Another original_max_len changes nothing: you use a fixed length. Count turns in original_max_len "
    "positions.",
    {LENGTH: "4096 / (2 * math.pi * turns)"},
)
wrong(
    EXERCISE,
    step_by_step,
    "base_of_the_ramp_fixed",
    "The ends of your ramp are computed with the base 10000, whatever the base is. Divide by 2 ln(base).",
    {"(2 * math.log(base))": "(2 * math.log(10000))"},
    gravity="slip",
)
wrong(
    EXERCISE,
    step_by_step,
    "ends_in_channels",
    "The ends of your ramp are twice as far on as they should be: you number channels. Number pairs: a and "
    "b are d ln(...) / (2 ln(base)).",
    {"(2 * math.log(base))": "math.log(base)"},
    gravity="slip",
)
wrong(
    EXERCISE,
    step_by_step,
    "two_logarithms",
    "The ends of your ramp divide a logarithm to base 10 by a natural one. Use one logarithm for both.",
    {f"math.log({LENGTH})": f"math.log10({LENGTH})"},
    gravity="slip",
)
wrong(
    EXERCISE,
    step_by_step,
    "exponent_i_over_d",
    "Your frequencies are base^(-i/d). Pair i has the frequency base^(-2i/d), so that the last "
    "pair comes near 1 / base.",
    {POWERS: "base ** (-i / d)"},
    gravity="slip",
)
wrong(
    EXERCISE,
    step_by_step,
    "exponent_positive",
    "Your frequencies grow from pair to pair: the exponent has lost its minus. Pair i has base^(-2i/d).",
    {POWERS: "base ** (2 * i / d)"},
    gravity="slip",
)
wrong(
    EXERCISE,
    step_by_step,
    "larger_base",
    "You slow pairs down by a larger base, which is NTK-aware scaling. Keep the base, and blend omega and "
    "omega / factor by the ramp.",
    {BLEND: "(base * factor ** (d / (d - 2))) ** (-2 * i / d)"},
)

TEMPERATURES = {
    "temperature_log10": (
        "Your temperature has a logarithm to base 10. Take the natural one: 0.1 * math.log(factor) + 1.",
        "0.1 * math.log10(factor) + 1",
    ),
    "temperature_log2": (
        "Your temperature has a logarithm to base 2. Take the natural one: 0.1 * math.log(factor) + 1.",
        "0.1 * math.log2(factor) + 1",
    ),
    "temperature_squared": (
        "Your temperature is squared. Return the number that multiplies cosines and sines, 0.1 ln(factor) "
        "+ 1; the scores are multiplied by its square.",
        "(0.1 * math.log(factor) + 1) ** 2",
    ),
    "temperature_root": (
        "Your temperature is the root of the right one. Return 0.1 ln(factor) + 1 itself: it multiplies "
        "cosines and sines; its square scales scores.",
        "math.sqrt(0.1 * math.log(factor) + 1)",
    ),
    "temperature_inverted": (
        "Your temperature is inverted: it is below 1. Return 0.1 ln(factor) + 1, which multiplies cosines "
        "and sines.",
        "1 / (0.1 * math.log(factor) + 1)",
    ),
    "no_temperature": (
        "Your temperature is 1 for every factor. Return 0.1 ln(factor) + 1.",
        "1.0",
    ),
    "temperature_without_tenth": (
        "Your temperature lacks the 0.1: it is ln(factor) + 1. Return 0.1 * math.log(factor) + 1.",
        "math.log(factor) + 1",
    ),
    "temperature_without_one": (
        "Your temperature lacks the 1, so that it is 0 for factor 1. Return 0.1 * math.log(factor) + 1.",
        "0.1 * math.log(factor)",
    ),
    "temperature_of_the_sum": (
        "Your temperature is 0.1 times the whole sum. Return 0.1 * math.log(factor) + 1.",
        "0.1 * (math.log(factor) + 1)",
    ),
    "temperature_without_logarithm": (
        "Your temperature has no logarithm: it is 0.1 * factor + 1. Return 0.1 * math.log(factor) + 1.",
        "0.1 * factor + 1",
    ),
}

for name, (hint, temperature) in TEMPERATURES.items():
    wrong(EXERCISE, step_by_step, name, hint, {RESULT + TEMPERATURE: RESULT + temperature}, gravity="slip")

wrong(
    EXERCISE,
    step_by_step,
    "odd_accepted",
    "An odd d is accepted. A turn takes two channels: raise a ValueError when d is odd.",
    {"if d % 2:": "if d < 1:"},
    gravity="slip",
)


@EXERCISE.misconception(
    "You return the temperature first. Return the frequencies, then the temperature.", gravity="slip"
)
def temperature_first(d, base, factor, original_max_len, beta_fast=32, beta_slow=1):
    if d % 2:
        raise ValueError(f"a turn takes two channels, so d must be even, not {d}")
    i = torch.arange(d // 2, dtype=torch.float64)
    omega = base ** (-2 * i / d)
    a, b = (
        d * math.log(original_max_len / (2 * math.pi * turns)) / (2 * math.log(base))
        for turns in (beta_fast, beta_slow)
    )
    r = ((i - a) / (b - a)).clamp(0, 1)
    return 0.1 * math.log(factor) + 1, (1 - r) * omega + r * omega / factor


@EXERCISE.misconception(
    "You return the frequencies alone. Return two results: the frequencies and the temperature."
)
def frequencies_alone(d, base, factor, original_max_len, beta_fast=32, beta_slow=1):
    if d % 2:
        raise ValueError(f"a turn takes two channels, so d must be even, not {d}")
    i = torch.arange(d // 2, dtype=torch.float64)
    omega = base ** (-2 * i / d)
    a, b = (
        d * math.log(original_max_len / (2 * math.pi * turns)) / (2 * math.log(base))
        for turns in (beta_fast, beta_slow)
    )
    r = ((i - a) / (b - a)).clamp(0, 1)
    return (1 - r) * omega + r * omega / factor
