"""Mistakes that people make in `speculative_accept`, each with the hint for its author."""

from __future__ import annotations

import torch

from autograder.exercises.ch08_serving.speculative_accept import EXERCISE


@EXERCISE.misconception(
    "Your ratio is upside down. Accept a guess with probability p_target/p_draft, so that a token which the "
    "small model prefers too much is often rejected."
)
def ratio_inverted(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_draft[rows, draft_tokens] / p_target[rows, draft_tokens]
    count = int((u < ratio).int().cumprod(dim=0).sum())
    if count == n:
        return count, p_target[n]
    rest = (p_target[count] - p_draft[count]).clamp(min=0)
    return count, rest / rest.sum()


@EXERCISE.misconception(
    "You compare u with p_target alone, but the guess was made with probability p_draft already. Compare u "
    "with the ratio p_target/p_draft."
)
def draft_forgotten(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    count = int((u < p_target[rows, draft_tokens]).int().cumprod(dim=0).sum())
    if count == n:
        return count, p_target[n]
    rest = (p_target[count] - p_draft[count]).clamp(min=0)
    return count, rest / rest.sum()


@EXERCISE.misconception(
    "Your comparison is the wrong way round. Accept a guess where u is *below* the ratio, so that a ratio of "
    "0.9 accepts it nine times out of ten."
)
def accepts_above_the_ratio(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]
    count = int((u > ratio).int().cumprod(dim=0).sum())
    if count == n:
        return count, p_target[n]
    rest = (p_target[count] - p_draft[count]).clamp(min=0)
    return count, rest / rest.sum()


@EXERCISE.misconception(
    "You count every guess that passes its own test, but after a rejected token the text is a different one. "
    "Stop at the first rejection."
)
def goes_on_after_a_rejection(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]
    count = int((u < ratio).sum())
    if count == n:
        return count, p_target[n]
    rest = (p_target[count] - p_draft[count]).clamp(min=0)
    return count, rest / rest.sum()


@EXERCISE.misconception(
    "When all guesses are accepted, you count 0, as argmax gives 0 when there is no rejection. Handle that "
    "case by itself."
)
def argmax_of_no_rejection(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]
    count = int((u >= ratio).int().argmax())
    if count == n:
        return count, p_target[n]
    rest = (p_target[count] - p_draft[count]).clamp(min=0)
    return count, rest / rest.sum()


@EXERCISE.misconception(
    "You count the rejected guess as accepted. Count only the guesses before it.",
    gravity="slip",
)
def counts_the_rejected(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    for i in range(n):
        x = draft_tokens[i]
        if u[i] >= p_target[i, x] / p_draft[i, x]:
            rest = (p_target[i] - p_draft[i]).clamp(min=0)
            return i + 1, rest / rest.sum()
    return n, p_target[n]


@EXERCISE.misconception(
    "You accept a guess only if it is the likeliest token of the large model, which is right for greedy "
    "decoding alone. Accept it with probability p_target/p_draft."
)
def greedy_test(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    count = int((p_target[:n].argmax(dim=1) == draft_tokens).int().cumprod(dim=0).sum())
    if count == n:
        return count, p_target[n]
    rest = (p_target[count] - p_draft[count]).clamp(min=0)
    return count, rest / rest.sum()


@EXERCISE.misconception(
    "Your next distribution is p_target - p_draft, which is negative for some tokens and sums to 0. Clamp "
    "it at 0, and divide by its sum."
)
def not_clamped(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]
    count = int((u < ratio).int().cumprod(dim=0).sum())
    if count == n:
        return count, p_target[n]
    return count, p_target[count] - p_draft[count]


@EXERCISE.misconception(
    "You take the difference without its sign, which gives weight to tokens that the small model offers too "
    "often already. Clamp the difference at 0."
)
def absolute_difference(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]
    count = int((u < ratio).int().cumprod(dim=0).sum())
    if count == n:
        return count, p_target[n]
    rest = (p_target[count] - p_draft[count]).abs()
    return count, rest / rest.sum()


@EXERCISE.misconception(
    "Your residual sums to less than 1. Divide it by its sum.",
    gravity="slip",
)
def not_renormalised(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]
    count = int((u < ratio).int().cumprod(dim=0).sum())
    if count == n:
        return count, p_target[n]
    return count, (p_target[count] - p_draft[count]).clamp(min=0)


@EXERCISE.misconception(
    "You normalise with a softmax, which gives weight to tokens whose residual is 0. Divide by the sum."
)
def softmax_of_the_rest(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]
    count = int((u < ratio).int().cumprod(dim=0).sum())
    if count == n:
        return count, p_target[n]
    return count, torch.softmax((p_target[count] - p_draft[count]).clamp(min=0), dim=0)


@EXERCISE.misconception(
    "Your difference is the wrong way round. Write p_target - p_draft.",
    gravity="slip",
)
def draft_minus_target(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]
    count = int((u < ratio).int().cumprod(dim=0).sum())
    if count == n:
        return count, p_target[n]
    rest = (p_draft[count] - p_target[count]).clamp(min=0)
    return count, rest / rest.sum()


@EXERCISE.misconception(
    "After a rejection you return p_target itself, and tokens that the small model prefers come out too "
    "often. Return the residual distribution: max(p - q, 0), divided by its sum."
)
def target_after_a_rejection(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]
    count = int((u < ratio).int().cumprod(dim=0).sum())
    return count, p_target[count]


@EXERCISE.misconception(
    "You only take the rejected token out of p_target, and other tokens that the small model prefers come "
    "out too often. Subtract all of p_draft, and clamp at 0."
)
def rejected_token_taken_out(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]
    count = int((u < ratio).int().cumprod(dim=0).sum())
    if count == n:
        return count, p_target[n]
    rest = p_target[count].clone()
    rest[draft_tokens[count]] = 0
    return count, rest / rest.sum()


@EXERCISE.misconception(
    "You take the distributions after the rejected guess. Take those at its own place: "
    "p_target[num_accepted] and p_draft[num_accepted].",
    gravity="slip",
)
def one_place_too_late(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]
    count = int((u < ratio).int().cumprod(dim=0).sum())
    if count == n:
        return count, p_target[n]
    rest = (p_target[count + 1] - p_draft[min(count + 1, n - 1)]).clamp(min=0)
    return count, rest / rest.sum()


@EXERCISE.misconception(
    "When all guesses are accepted, you return the last guess's residual. The large model has looked one "
    "place further: return p_target[n]."
)
def no_token_after_all_accepted(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]
    count = int((u < ratio).int().cumprod(dim=0).sum())
    last = min(count, n - 1)
    rest = (p_target[last] - p_draft[last]).clamp(min=0)
    return count, rest / rest.sum() if rest.sum() > 0 else p_target[last]


@EXERCISE.misconception(
    "When all guesses are accepted, you return p_target at the last guess, p_target[n - 1]. Return the "
    "distribution after that guess: p_target[n].",
    gravity="slip",
)
def last_guess_again(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]
    count = int((u < ratio).int().cumprod(dim=0).sum())
    if count == n:
        return count, p_target[n - 1]
    rest = (p_target[count] - p_draft[count]).clamp(min=0)
    return count, rest / rest.sum()


@EXERCISE.misconception(
    "You write the next distribution into the caller's p_target, as `-=` and `clamp_` do. Write "
    "p_target[i] - p_draft[i], which makes a new tensor."
)
def changed_in_place(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]
    count = int((u < ratio).int().cumprod(dim=0).sum())
    following = p_target[count]
    if count < n:
        following -= p_draft[count]
        following.clamp_(min=0)
        following /= following.sum()
    return count, following


@EXERCISE.misconception(
    "Your count does not depend on `u`: a guess is rejected whenever p_target is below p_draft. Accept it "
    "where u is below p_target/p_draft."
)
def u_ignored(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    for i in range(n):
        x = draft_tokens[i]
        if p_target[i, x] < p_draft[i, x]:
            rest = (p_target[i] - p_draft[i]).clamp(min=0)
            return i, rest / rest.sum()
    return n, p_target[n]


@EXERCISE.misconception(
    "When all guesses are accepted, you read past the last of them. Stop after n guesses, and then return "
    "p_target[n].",
    gravity="slip",
)
def past_the_end(p_target, p_draft, draft_tokens, u):
    i = 0
    while u[i] < p_target[i, draft_tokens[i]] / p_draft[i, draft_tokens[i]]:
        i += 1
    rest = (p_target[i] - p_draft[i]).clamp(min=0)
    return i, rest / rest.sum()


@EXERCISE.misconception(
    "You write the difference into the caller's p_target, as `p_target[i] -= ...` does. Write "
    "p_target[i] - p_draft[i], which makes a new tensor."
)
def subtracted_in_place(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]
    count = int((u < ratio).int().cumprod(dim=0).sum())
    if count == n:
        return count, p_target[n]
    p_target[count] -= p_draft[count]
    rest = p_target[count].clamp(min=0)
    return count, rest / rest.sum()


@EXERCISE.misconception(
    "You return the distribution first. Return the number of accepted guesses, then the distribution.",
    gravity="slip",
)
def results_swapped(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]
    count = int((u < ratio).int().cumprod(dim=0).sum())
    if count == n:
        return p_target[n], count
    rest = (p_target[count] - p_draft[count]).clamp(min=0)
    return rest / rest.sum(), count


@EXERCISE.misconception(
    "Your next distribution is on the cpu, wherever p_target is. Make it on the device of p_target, for "
    "example with p_target.new_tensor(...).",
    gravity="slip",
)
def left_on_the_cpu(p_target, p_draft, draft_tokens, u):
    n = len(draft_tokens)
    rows = torch.arange(n, device=u.device)
    ratio = p_target[rows, draft_tokens] / p_draft[rows, draft_tokens]
    count = int((u < ratio).int().cumprod(dim=0).sum())
    if count == n:
        return count, p_target[n]
    rest = (p_target[count] - p_draft[count]).clamp(min=0)
    return count, torch.tensor((rest / rest.sum()).tolist(), dtype=p_target.dtype)
