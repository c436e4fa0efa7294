"""The losses of every kind of batch: the mean over what is predicted, half precision, and what is refused."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tiny_language_model import looped_loss, same
from torch import nn

from tfcore.data import Classification, Induction, LanguageModeling, Tagging
from tfcore.losses import (
    classification_loss,
    labeled_loss,
    next_token_loss,
    sequence_to_sequence_loss,
    summed_cross_entropy,
    tagging_loss,
)


@pytest.mark.parametrize("ignore_index", [-100, 2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_next_token_loss_is_the_mean_over_what_is_predicted(dtype, ignore_index):
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(3, 7, 5, generator=generator).to(dtype)
    tokens = torch.randint(0, 5, (3, 7), generator=generator)
    tokens[0, 4:] = ignore_index
    logits_before, tokens_before = logits.clone(), tokens.clone()
    loss = next_token_loss(logits, tokens, ignore_index)
    total, count = looped_loss(logits, tokens, ignore_index)
    tolerance = {torch.float64: 1e-14, torch.float32: 1e-6, torch.bfloat16: 2**-8}[dtype]
    assert loss.item() == pytest.approx(total / count, rel=tolerance)
    assert loss.dtype == dtype
    assert same(logits, logits_before)
    assert same(tokens, tokens_before)


def test_a_sum_of_half_precision_is_kept_in_float32():
    logits = torch.randn(3000, 5, generator=torch.Generator().manual_seed(2)).bfloat16()
    targets = torch.zeros(3000, dtype=torch.long)
    total, count = summed_cross_entropy(logits, targets)
    assert total.dtype == torch.float32
    assert total.item() == pytest.approx(
        F.cross_entropy(logits.double(), targets, reduction="sum").item(), rel=1e-5
    )
    assert count.item() == 3000


def test_gradient_of_the_loss():
    tokens = torch.tensor([[1, 2, 0, 3], [3, -100, 2, 1]])
    logits = torch.randn(2, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    assert torch.autograd.gradcheck(lambda x: next_token_loss(x, tokens), logits.requires_grad_())


@pytest.mark.parametrize(
    "tokens", [torch.full((2, 4), -100), torch.tensor([[3], [1]]), torch.tensor([[3, -100]])]
)
def test_nothing_to_predict_costs_nothing(tokens):
    logits = torch.randn(*tokens.shape, 5, requires_grad=True)
    loss = next_token_loss(logits, tokens)
    loss.backward()
    assert loss.item() == 0.0
    assert torch.equal(logits.grad, torch.zeros_like(logits))


def test_targets_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"got \(2, 4, 5\) and \(2, 3\)"):
        summed_cross_entropy(torch.zeros(2, 4, 5), torch.zeros(2, 3, dtype=torch.long))


@pytest.mark.parametrize("ignore_index", [-100, 7])
@pytest.mark.parametrize("target", [5, -1])
def test_targets_beyond_the_head_are_refused(target, ignore_index):
    targets = torch.tensor([[4, target], [0, ignore_index]])
    with pytest.raises(ValueError, match=f"expected targets from 0 to 4, got {target}; "):
        summed_cross_entropy(torch.zeros(2, 2, 5), targets, ignore_index)


TOKENS = torch.tensor([[1, 2, 3]])
INDUCTION = Induction(TOKENS, TOKENS, torch.tensor([2]))


@pytest.mark.parametrize(
    ("loss", "batch"),
    [
        (sequence_to_sequence_loss, INDUCTION),
        (tagging_loss, INDUCTION),
        (tagging_loss, LanguageModeling(TOKENS, TOKENS)),
        (labeled_loss, Tagging(TOKENS, TOKENS)),
        (labeled_loss, TOKENS),
        (labeled_loss, Classification(TOKENS, torch.tensor([0]))),
        (classification_loss, Tagging(TOKENS, TOKENS)),
    ],
)
def test_a_batch_of_another_kind_is_refused(loss, batch):
    with pytest.raises(ValueError, match=r"expected .*, got .*; "):
        loss(nn.Embedding(5, 5), batch)


def test_one_row_and_narrow_targets_have_the_same_loss():
    logits = torch.randn(4, 5, generator=torch.Generator().manual_seed(2))
    targets = torch.tensor([3, 0, 4, 1])
    total, count = summed_cross_entropy(logits, targets)
    for narrow in (torch.int32, torch.int16, torch.uint8):
        assert torch.equal(summed_cross_entropy(logits, targets.to(narrow))[0], total)
    rows = [summed_cross_entropy(*pair)[0] for pair in zip(logits, targets, strict=True)]
    torch.testing.assert_close(sum(rows), total)
    assert int(count) == 4
    with pytest.raises(ValueError, match="expected targets as whole numbers"):
        summed_cross_entropy(logits, targets.float())
