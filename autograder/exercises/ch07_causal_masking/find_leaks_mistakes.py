"""Mistakes that people make in `find_leaks`, each with the hint for its author."""

from __future__ import annotations

import torch

from autograder.exercises.ch07_causal_masking.find_leaks import EXERCISE


@EXERCISE.misconception(
    "Only leaks from the last token are found. Change each token but the first in turn, and look at the "
    "outputs before it."
)
def last_token_only(model, tokens, vocab_size):
    before, j = model(tokens[None])[0], len(tokens) - 1
    other = tokens.clone()
    other[j] = (tokens[j] + 1) % vocab_size
    moved = (model(other[None])[0] - before).abs().amax(dim=-1) > 1e-4
    return {(i, j) for i in range(j) if moved[i]}


@EXERCISE.misconception(
    "You compare the output of the last place, which may see every token. Leaks go to the outputs *before* "
    "the token that was changed: compare all i < j."
)
def last_output_only(model, tokens, vocab_size):
    before, leaks, last = model(tokens[None])[0], set(), len(tokens) - 1
    for j in range(last):
        other = tokens.clone()
        other[j] = (tokens[j] + 1) % vocab_size
        if ((model(other[None])[0, last] - before[last]).abs() > 1e-4).any():
            leaks.add((last, j))
    return leaks


@EXERCISE.misconception(
    "A leak is missed if the first logit does not move. Compare all numbers of the row: .abs().max()."
)
def first_logit_only(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0, :, 0], set()
    for j in range(1, len(tokens)):
        other = tokens.clone()
        other[j] = (tokens[j] + 1) % vocab_size
        moved = (model(other[None])[0, :, 0] - before).abs() > 1e-4
        leaks |= {(i, j) for i in range(j) if moved[i]}
    return leaks


@EXERCISE.misconception(
    "You find only leaks into the output just before a token. A token may leak into every output before it: "
    "compare all i < j."
)
def neighbours_only(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0], set()
    for j in range(1, len(tokens)):
        other = tokens.clone()
        other[j] = (tokens[j] + 1) % vocab_size
        if ((model(other[None])[0, j - 1] - before[j - 1]).abs() > 1e-4).any():
            leaks.add((j - 1, j))
    return leaks


@EXERCISE.misconception(
    "Small leaks are missed, and training can make them large. Count every change above 1e-4."
)
def tolerance_too_large(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0], set()
    for j in range(1, len(tokens)):
        other = tokens.clone()
        other[j] = (tokens[j] + 1) % vocab_size
        after = model(other[None])[0]
        leaks |= {(i, j) for i in range(j) if not torch.allclose(after[i], before[i], atol=1e-2)}
    return leaks


@EXERCISE.misconception(
    "The tolerance grows with the logits and is far below 1e-4 for small ones, as in `allclose` without "
    "arguments, which allows 1e-5 of each number plus 1e-8. Give both rtol=0 and atol=1e-4.",
    gravity="slip",
)
def allclose_as_it_is(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0], set()
    for j in range(1, len(tokens)):
        other = tokens.clone()
        other[j] = (tokens[j] + 1) % vocab_size
        after = model(other[None])[0]
        leaks |= {(i, j) for i in range(j) if not torch.allclose(after[i], before[i])}
    return leaks


@EXERCISE.misconception(
    "Small leaks into large logits are missed: the tolerance grows with the logits, as in `allclose`. "
    "Count a change above 1e-4, however large the logit: give rtol=0 beside atol=1e-4.",
    gravity="slip",
)
def relative_tolerance(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0], set()
    for j in range(1, len(tokens)):
        other = tokens.clone()
        other[j] = (tokens[j] + 1) % vocab_size
        after = model(other[None])[0]
        leaks |= {(i, j) for i in range(j) if not torch.allclose(after[i], before[i], atol=1e-4)}
    return leaks


@EXERCISE.misconception(
    "Every difference counts as a leak. Two runs of one model may differ in the last digit, as sums are made "
    "in another order: count only changes above 1e-4."
)
def rounding_counts(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0], set()
    for j in range(1, len(tokens)):
        other = tokens.clone()
        other[j] = (tokens[j] + 1) % vocab_size
        after = model(other[None])[0]
        leaks |= {(i, j) for i in range(j) if not torch.equal(after[i], before[i])}
    return leaks


@EXERCISE.misconception(
    "Outputs *after* the changed token are reported as well. They may depend on it: report only i < j."
)
def past_reported(model, tokens, vocab_size):
    before, leaks, T = model(tokens[None])[0], set(), len(tokens)
    for j in range(T):
        other = tokens.clone()
        other[j] = (tokens[j] + 1) % vocab_size
        moved = (model(other[None])[0] - before).abs().amax(dim=-1) > 1e-4
        leaks |= {(i, j) for i in range(T) if moved[i]}
    return leaks


@EXERCISE.misconception(
    "(j, j) is reported too. An output may depend on the token at its own place, which it has read: report "
    "only i < j.",
    gravity="slip",
)
def itself_reported(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0], set()
    for j in range(len(tokens)):
        other = tokens.clone()
        other[j] = (tokens[j] + 1) % vocab_size
        moved = (model(other[None])[0] - before).abs().amax(dim=-1) > 1e-4
        leaks |= {(i, j) for i in range(j + 1) if moved[i]}
    return leaks


@EXERCISE.misconception(
    "The pairs are the wrong way round. Put the output first, then the token that it must not see: (i, j) "
    "with j > i.",
    gravity="slip",
)
def pairs_turned_round(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0], set()
    for j in range(1, len(tokens)):
        other = tokens.clone()
        other[j] = (tokens[j] + 1) % vocab_size
        moved = (model(other[None])[0] - before).abs().amax(dim=-1) > 1e-4
        leaks |= {(j, i) for i in range(j) if moved[i]}
    return leaks


@EXERCISE.misconception(
    "The caller's tokens are changed, and each change is still there when the next is made. Change a new "
    "copy for each j: other = tokens.clone()."
)
def changes_pile_up(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0], set()
    for j in range(1, len(tokens)):
        tokens[j] = (tokens[j] + 1) % vocab_size
        moved = (model(tokens[None])[0] - before).abs().amax(dim=-1) > 1e-4
        leaks |= {(i, j) for i in range(j) if moved[i]}
    return leaks


@EXERCISE.misconception(
    "The changes pile up, as with one copy for all j, so an output may move because of an earlier change. "
    "Copy the tokens again for each j."
)
def one_copy_for_all(model, tokens, vocab_size):
    before, leaks, other = model(tokens[None])[0], set(), tokens.clone()
    for j in range(1, len(tokens)):
        other[j] = (tokens[j] + 1) % vocab_size
        moved = (model(other[None])[0] - before).abs().amax(dim=-1) > 1e-4
        leaks |= {(i, j) for i in range(j) if moved[i]}
    return leaks


@EXERCISE.misconception(
    "You always write the same token. If the place already has this token, nothing changes and no leak can "
    "show: take a token that differs, such as (tokens[j] + 1) % vocab_size."
)
def always_token_0(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0], set()
    for j in range(1, len(tokens)):
        other = tokens.clone()
        other[j] = 0
        moved = (model(other[None])[0] - before).abs().amax(dim=-1) > 1e-4
        leaks |= {(i, j) for i in range(j) if moved[i]}
    return leaks


@EXERCISE.misconception(
    "The model is given a token beyond the end of the vocabulary. Begin again at 0: (tokens[j] + 1) % "
    "vocab_size.",
    gravity="slip",
)
def beyond_the_vocabulary(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0], set()
    for j in range(1, len(tokens)):
        other = tokens.clone()
        other[j] = tokens[j] + 1
        moved = (model(other[None])[0] - before).abs().amax(dim=-1) > 1e-4
        leaks |= {(i, j) for i in range(j) if moved[i]}
    return leaks


@EXERCISE.misconception(
    "You compare the token that the model would choose. A leak may change the logits, but not which of them "
    "is the largest: compare all the numbers."
)
def choices_compared(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0].argmax(dim=-1), set()
    for j in range(1, len(tokens)):
        other = tokens.clone()
        other[j] = (tokens[j] + 1) % vocab_size
        after = model(other[None])[0].argmax(dim=-1)
        leaks |= {(i, j) for i in range(j) if after[i] != before[i]}
    return leaks


@EXERCISE.misconception(
    "You compare a mean or sum over the vocabulary, in which a change of one logit may be lost and opposite "
    "changes cancel. Compare every number: .abs().max()."
)
def means_compared(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0].mean(dim=-1), set()
    for j in range(1, len(tokens)):
        other = tokens.clone()
        other[j] = (tokens[j] + 1) % vocab_size
        after = model(other[None])[0].mean(dim=-1)
        leaks |= {(i, j) for i in range(j) if abs(after[i] - before[i]) > 1e-4}
    return leaks


@EXERCISE.misconception(
    "Probabilities are compared. A leak that moves all logits alike does not show in them, and a small one "
    "hardly does: compare the outputs themselves."
)
def probabilities_compared(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0].softmax(dim=-1), set()
    for j in range(1, len(tokens)):
        other = tokens.clone()
        other[j] = (tokens[j] + 1) % vocab_size
        moved = (model(other[None])[0].softmax(dim=-1) - before).abs().amax(dim=-1) > 1e-4
        leaks |= {(i, j) for i in range(j) if moved[i]}
    return leaks


@EXERCISE.misconception(
    "Only the first leak of each token is reported. A token may leak into several outputs: report them all."
)
def first_leak_only(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0], set()
    for j in range(1, len(tokens)):
        other = tokens.clone()
        other[j] = (tokens[j] + 1) % vocab_size
        after = model(other[None])[0]
        for i in range(j):
            if (after[i] - before[i]).abs().max() > 1e-4:
                leaks.add((i, j))
                break
    return leaks


@EXERCISE.misconception(
    "All tokens after i are changed together, and each of them is blamed. Change one token at a time: only "
    "then do you know which of them the output depends on."
)
def all_later_tokens_at_once(model, tokens, vocab_size):
    before, leaks, T = model(tokens[None])[0], set(), len(tokens)
    for i in range(T - 1):
        other = tokens.clone()
        other[i + 1 :] = (tokens[i + 1 :] + 1) % vocab_size
        if (model(other[None])[0, i] - before[i]).abs().max() > 1e-4:
            leaks |= {(i, j) for j in range(i + 1, T)}
    return leaks


@EXERCISE.misconception(
    "Changed tokens stay changed, and the first token, which every output may see, is changed from the "
    "start. Copy the tokens again for each j."
)
def one_copy_and_the_first_token_too(model, tokens, vocab_size):
    before, leaks, other = model(tokens[None])[0], set(), tokens.clone()
    for j in range(len(tokens)):
        other[j] = (tokens[j] + 1) % vocab_size
        moved = (model(other[None])[0] - before).abs().amax(dim=-1) > 1e-4
        leaks |= {(i, j) for i in range(j) if moved[i]}
    return leaks


@EXERCISE.misconception(
    "You return a list of pairs. Return a set: start with set() and .add((i, j)), or end with set(leaks).",
    gravity="slip",
)
def list_of_pairs(model, tokens, vocab_size):
    before, leaks = model(tokens[None])[0], []
    for j in range(1, len(tokens)):
        other = tokens.clone()
        other[j] = (tokens[j] + 1) % vocab_size
        moved = (model(other[None])[0] - before).abs().amax(dim=-1) > 1e-4
        leaks += [(i, j) for i in range(j) if moved[i]]
    return leaks
