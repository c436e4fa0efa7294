"""Right answers to `find_leaks`, each in a style of its own."""

from __future__ import annotations

import numpy as np
import torch

from autograder.exercises.ch07_causal_masking.find_leaks import EXERCISE


@EXERCISE.style("each token changed in turn, all outputs before it compared")
def each_in_turn(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0], set()
    for j in range(1, len(tokens)):
        other = tokens.clone()
        other[j] = (tokens[j] + 1) % vocab_size
        moved = (model(other[None])[0] - before).abs().amax(dim=-1) > 1e-4
        leaks |= {(i, j) for i in range(j) if moved[i]}
    return leaks


@EXERCISE.style("with torch.allclose, pair by pair")
def pair_by_pair(model, tokens, vocab_size):
    leaks = set()
    with torch.no_grad():
        original = model(tokens.unsqueeze(0)).squeeze(0)
        for i in range(len(tokens)):
            for j in range(i + 1, len(tokens)):
                changed = tokens.clone()
                changed[j] = 0 if tokens[j] else 1
                output = model(changed.unsqueeze(0)).squeeze(0)
                if not torch.allclose(output[i], original[i], rtol=0, atol=1e-4):
                    leaks.add((i, j))
    return leaks


@EXERCISE.style("all changed sequences as one batch")
def one_batch(model, tokens, vocab_size):
    T = len(tokens)
    step = torch.eye(T, dtype=tokens.dtype, device=tokens.device)
    outputs = model((tokens + step) % vocab_size)
    moved = (outputs - model(tokens[None])).abs().amax(dim=-1) > 1e-4
    return {(i, j) for j, i in moved.nonzero().tolist() if j > i}


@EXERCISE.style("every other token of the vocabulary tried")
def every_other_token(model, tokens, vocab_size):
    before = model(tokens[None])[0]
    leaks = set()
    for j in range(1, len(tokens)):
        for token in range(vocab_size):
            other = torch.cat([tokens[:j], tokens.new_tensor([token]), tokens[j + 1 :]])
            change = (model(other[None])[0, :j] - before[:j]).abs().max(dim=-1).values
            leaks.update((i, j) for i in range(j) if change[i] > 1e-4)
    return leaks


@EXERCISE.style("changed in place on a copy, and changed back; compared in numpy")
def changed_back(model, tokens, vocab_size):
    work, leaks = tokens.clone(), set()
    before = model(work[None])[0].detach().cpu().numpy()
    for j in range(len(work)):
        kept = int(work[j])
        work[j] = vocab_size - 1 if kept != vocab_size - 1 else 0
        after = model(work[None])[0].detach().cpu().numpy()
        work[j] = kept
        leaks |= {(i, j) for i in range(j) if not np.allclose(after[i], before[i], rtol=0, atol=1e-4)}
    return leaks
