"""Right answers to `combine_masks`, each in a style of its own."""

from __future__ import annotations

import torch

from autograder.exercises.ch07_causal_masking.combine_masks import EXERCISE


@EXERCISE.style("the operator &, with axes inserted")
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
