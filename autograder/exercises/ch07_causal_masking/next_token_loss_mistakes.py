"""Mistakes that people make in `next_token_loss`, each with the hint for its author."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from autograder.exercises.ch07_causal_masking.next_token_loss import EXERCISE


@EXERCISE.misconception(
    "The logits at t are compared with the token at t, which the model has just read. Compare them with the "
    "token at t + 1: drop the last logits and the first token.",
    gravity="useless",
)
def no_shift(logits, tokens, ignore_index=-100):
    total = F.cross_entropy(
        logits.flatten(0, 1), tokens.flatten(), ignore_index=ignore_index, reduction="sum"
    )
    return total / (tokens != ignore_index).sum().clamp(min=1)


@EXERCISE.misconception(
    "The logits at t + 1 are compared with the token at t, which comes before them. Pair logits[:, :-1] with "
    "tokens[:, 1:].",
    gravity="useless",
)
def shifted_backwards(logits, tokens, ignore_index=-100):
    ahead, targets = logits[:, 1:].flatten(0, 1), tokens[:, :-1].flatten()
    total = F.cross_entropy(ahead, targets, ignore_index=ignore_index, reduction="sum")
    return total / (targets != ignore_index).sum().clamp(min=1)


@EXERCISE.misconception(
    "The last place of each sequence has to predict its *first* token, as after a `roll`. Cut instead of "
    "rolling: logits[:, :-1] and tokens[:, 1:]."
)
def rolled(logits, tokens, ignore_index=-100):
    targets = tokens.roll(-1, dims=1).flatten()
    total = F.cross_entropy(logits.flatten(0, 1), targets, ignore_index=ignore_index, reduction="sum")
    return total / (targets != ignore_index).sum().clamp(min=1)


@EXERCISE.misconception(
    "The sum is divided by the number of all targets, the ignored ones too, so padding makes the loss look "
    "small. Divide by the number of targets that are *not* ignored."
)
def mean_over_ignored_too(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:].flatten()
    total = F.cross_entropy(logits[:, :-1].flatten(0, 1), targets, ignore_index=ignore_index, reduction="sum")
    return total / max(1, targets.numel())


@EXERCISE.misconception(
    "If every target is ignored, 0 is divided by 0, and the loss is NaN. Divide by at least 1: "
    "count.clamp(min=1)."
)
def zero_by_zero(logits, tokens, ignore_index=-100):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=ignore_index)


@EXERCISE.misconception(
    "-100 is ignored, whatever `ignore_index` is. Ignore the number that was passed: other texts are padded "
    "with other numbers."
)
def always_minus_100(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:].flatten()
    total = F.cross_entropy(logits[:, :-1].flatten(0, 1), targets, reduction="sum")
    return total / (targets != -100).sum().clamp(min=1)


@EXERCISE.misconception(
    "Ignored targets are looked up or counted like any other. Put a valid token in their place for the "
    "look-up and leave them out of the mean, or let F.cross_entropy do both."
)
def nothing_ignored(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    if targets.numel() == 0:
        return logits.sum() * 0
    log_p = F.log_softmax(logits[:, :-1], dim=-1)
    return -log_p.gather(-1, targets[..., None]).mean()


@EXERCISE.misconception(
    "You leave out places where the token that is *read* is ignored. Leave out places where the *predicted* "
    "token is ignored: compare tokens[:, 1:] with ignore_index."
)
def ignored_where_read(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = (tokens[:, :-1] != ignore_index) & (targets >= 0)
    log_p = F.log_softmax(logits[:, :-1], dim=-1)
    losses = -log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    return (losses * keep).sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "Each sequence is averaged by itself, so a token of a short sequence weighs more than one of a long "
    "sequence. Add up over the whole batch, and divide once."
)
def mean_of_means(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    log_p = F.log_softmax(logits[:, :-1], dim=-1)
    losses = -log_p.gather(-1, targets.masked_fill(~keep, 0)[..., None])[..., 0] * keep
    return (losses.sum(dim=1) / keep.sum(dim=1).clamp(min=1)).mean()


@EXERCISE.misconception(
    "You return the sum, which grows with the length of the text. Divide by the number of targets that are "
    "not ignored.",
    gravity="slip",
)
def sum_for_mean(logits, tokens, ignore_index=-100):
    ahead, targets = logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
    return F.cross_entropy(ahead, targets, ignore_index=ignore_index, reduction="sum")


@EXERCISE.misconception(
    "The sum is divided by the batch size alone, so that the loss grows with the length of the text. Divide "
    "by the number of targets that are not ignored.",
    gravity="slip",
)
def mean_over_the_batch(logits, tokens, ignore_index=-100):
    ahead, targets = logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
    return F.cross_entropy(ahead, targets, ignore_index=ignore_index, reduction="sum") / len(tokens)


@EXERCISE.misconception(
    "The loss is negative, as ln p is, and minimising it would make the right token ever less likely. Return "
    "-ln p."
)
def wrong_sign(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    log_p = F.log_softmax(logits[:, :-1], dim=-1)
    picked = log_p.gather(-1, targets.masked_fill(~keep, 0)[..., None])[..., 0]
    return (picked * keep).sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "You average the logits themselves. A logit is not a log-probability before its row is normalised: take "
    "log_softmax over the vocabulary first."
)
def logits_for_log_probabilities(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    picked = logits[:, :-1].gather(-1, targets.masked_fill(~keep, 0)[..., None])[..., 0]
    return -(picked * keep).sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "The logits are normalised over the places. The probabilities of all *tokens* at one place sum to 1: "
    "take log_softmax over the last axis."
)
def softmax_over_time(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    log_p = F.log_softmax(logits[:, :-1], dim=1)
    losses = -log_p.gather(-1, targets.masked_fill(~keep, 0)[..., None])[..., 0]
    return (losses * keep).sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "Softmax is taken twice, once before the loss and once in it. F.cross_entropy takes the softmax of the "
    "logits itself: leave out your own."
)
def softmax_twice(logits, tokens, ignore_index=-100):
    p, targets = F.softmax(logits[:, :-1], dim=-1).flatten(0, 1), tokens[:, 1:].flatten()
    total = F.cross_entropy(p, targets, ignore_index=ignore_index, reduction="sum")
    return total / (targets != ignore_index).sum().clamp(min=1)


@EXERCISE.misconception(
    "A probability of e^-1000 has become 0 before its logarithm is taken, which is then -inf. Use "
    "log_softmax, which never makes this 0."
)
def log_of_softmax(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    log_p = F.softmax(logits[:, :-1], dim=-1).log()
    losses = -log_p.gather(-1, targets.masked_fill(~keep, 0)[..., None])[..., 0]
    return losses[keep].sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "No loss gets above 21: a small number inside the logarithm hides how wrong a sure model is. Use "
    "log_softmax, which needs no such number."
)
def epsilon_in_the_logarithm(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    log_p = (F.softmax(logits[:, :-1], dim=-1) + 1e-9).log()
    losses = -log_p.gather(-1, targets.masked_fill(~keep, 0)[..., None])[..., 0]
    return losses[keep].sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "exp overflows for logits above 88 in float32. Use torch.logsumexp or log_softmax, which subtract the "
    "largest logit first."
)
def log_sum_exp_overflows(logits, tokens, ignore_index=-100):
    ahead, targets = logits[:, :-1], tokens[:, 1:]
    keep = targets != ignore_index
    picked = ahead.gather(-1, targets.masked_fill(~keep, 0)[..., None])[..., 0]
    losses = ahead.exp().sum(dim=-1).log() - picked
    return losses[keep].sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "You subtract one maximum at all places. At a place far below it every exponential is 0, and the "
    "logarithm of their sum is minus infinity: subtract each place's own maximum, dim=-1 with keepdim=True."
)
def one_maximum_for_all(logits, tokens, ignore_index=-100):
    ahead, targets = logits[:, :-1] - logits[:, :-1].max(), tokens[:, 1:]
    keep = targets != ignore_index
    picked = ahead.gather(-1, targets.masked_fill(~keep, 0)[..., None])[..., 0]
    losses = ahead.exp().sum(dim=-1).log() - picked
    return losses[keep].sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "The loss is cut off from the logits, as by `.item()`, `.detach()` or no_grad, so no gradient flows and "
    "nothing is learned. Return the tensor that was computed from them."
)
def cut_off_from_the_logits(logits, tokens, ignore_index=-100):
    ahead, targets = logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
    total = F.cross_entropy(ahead, targets, ignore_index=ignore_index, reduction="sum").item()
    return torch.tensor(total / max(1, int((targets != ignore_index).sum())), dtype=logits.dtype)


@EXERCISE.misconception(
    "If nothing is predicted, the 0 is not computed from the logits, and a training step fails there. Divide "
    "the sum, which is 0, by at least 1, or return logits.sum() * 0."
)
def fresh_zero(logits, tokens, ignore_index=-100):
    ahead, targets = logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
    if not (targets != ignore_index).any():
        return torch.zeros((), dtype=logits.dtype, device=logits.device)
    return F.cross_entropy(ahead, targets, ignore_index=ignore_index)


@EXERCISE.misconception(
    "The caller's tokens are overwritten, since tokens[:, 1:] is a view of them. Use masked_fill or clone, "
    "which make a new tensor."
)
def tokens_overwritten(logits, tokens, ignore_index=-100):
    targets = tokens[:, 1:]
    keep = targets != ignore_index
    targets[~keep] = 0
    losses = -F.log_softmax(logits[:, :-1], dim=-1).gather(-1, targets[..., None])[..., 0]
    return (losses * keep).sum() / keep.sum().clamp(min=1)


@EXERCISE.misconception(
    "F.cross_entropy expects the classes on axis 1, where you have the time. Make one long list of "
    "predictions: logits (N, V), tokens (N,), both by .flatten(0, 1).",
    gravity="slip",
)
def not_flattened(logits, tokens, ignore_index=-100):
    return F.cross_entropy(logits[:, :-1], tokens[:, 1:], ignore_index=ignore_index)
