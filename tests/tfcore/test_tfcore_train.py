"""Training: schedules and parameter groups, the loop against torch's own pieces, evaluation."""

from __future__ import annotations

import math
import random
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from tiny_language_model import PAD, VOCAB, Tiny, bits, looped_loss, pad_loss, ragged, same
from torch import nn

from tfcore.checkpoint import random_state
from tfcore.losses import (
    language_model_loss,
    next_token_loss,
    summed_cross_entropy,
)
from tfcore.train import (
    TrainConfig,
    decay_groups,
    evaluate,
    train,
    warmup_cosine,
)

# --- the schedule


def test_corners_of_the_schedule():
    rate = partial(warmup_cosine, peak_lr=0.8, total_steps=50, warmup_steps=10, min_lr=0.2)
    assert rate(0) == pytest.approx(0.8 / 11)
    assert rate(9) == pytest.approx(0.8 * 10 / 11)
    assert rate(10) == 0.8
    assert rate(30) == pytest.approx(0.5)
    assert 0.2 < rate(49) < 0.2 + 0.6 * 0.01
    assert rate(50) == rate(1000) == 0.2
    assert [rate(t) for t in range(11)] == sorted(rate(t) for t in range(11))
    assert [rate(t) for t in range(10, 51)] == sorted((rate(t) for t in range(10, 51)), reverse=True)


def test_a_schedule_of_either_part_alone():
    assert warmup_cosine(0, peak_lr=0.3, total_steps=4) == 0.3
    only_up = [warmup_cosine(t, peak_lr=0.3, total_steps=2, warmup_steps=2) for t in range(3)]
    assert only_up == pytest.approx([0.1, 0.2, 0.0])


# --- parameter groups


class Odd(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(2, 3))
        self.scale = nn.Parameter(torch.zeros(4))
        self.kernel = nn.Parameter(torch.zeros(2, 3, 4))
        self.norm = nn.LayerNorm((5, 6))
        self.rms = nn.RMSNorm((5, 6))
        self.frozen = nn.Linear(2, 2).requires_grad_(False)


def names_of(model: nn.Module, group: dict) -> set[str]:
    return {name for name, p in model.named_parameters() if any(p is q for q in group["params"])}


def test_matrices_decay_and_nothing_else_does():
    model = Odd()
    decayed, plain = decay_groups(model, 0.3)
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.3, 0.0)
    assert names_of(model, decayed) == {"kernel"}
    assert names_of(model, plain) == {"bias", "scale", "norm.weight", "norm.bias", "rms.weight"}


@pytest.mark.parametrize("tied", [True, False])
def test_every_parameter_is_in_one_group_once(tied):
    model = Tiny(tied=tied)
    groups = decay_groups(model, 0.3)
    grouped = [id(p) for group in groups for p in group["params"]]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) == {id(p) for p in model.parameters()}
    assert len(groups[0]["params"]) == (3 if tied else 4)
    torch.optim.AdamW(groups)  # which warns of, or refuses, a parameter that comes twice


# --- the loop, against torch


def plain_run(model: nn.Module, config: TrainConfig, batches, groups) -> list[float]:
    """Train with torch's own pieces, a step's batches padded to one big batch."""
    optimizer = torch.optim.AdamW(groups, lr=config.peak_lr, betas=config.betas, foreach=False)
    up = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / (config.warmup_steps + 1), 1, config.warmup_steps)
    down = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, config.steps - config.warmup_steps, config.min_lr
    )
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [up, down], [config.warmup_steps])
    losses = []
    for step in range(config.steps):
        rows = [row for j in range(config.accumulate) for row in batches(step * config.accumulate + j)]
        tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        logits = model(tokens)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        if config.clip_norm is not None:
            gradients = [p.grad for p in model.parameters()]
            norm = math.sqrt(sum(float((g**2).sum()) for g in gradients))
            for gradient in gradients:
                gradient *= min(1.0, config.clip_norm / (norm + 1e-6))
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    "config",
    [
        TrainConfig(steps=1, peak_lr=0.02, clip_norm=None),
        TrainConfig(steps=7, peak_lr=0.02, warmup_steps=3, min_lr=0.004, weight_decay=0.3, clip_norm=None),
        TrainConfig(steps=7, peak_lr=0.02, warmup_steps=2, clip_norm=0.4, betas=(0.8, 0.9)),
        TrainConfig(steps=5, peak_lr=0.02, accumulate=3, warmup_steps=1, clip_norm=0.4),
    ],
    ids=["one step", "schedule", "clipped", "accumulated"],
)
def test_a_run_is_that_of_torchs_own_pieces(config):
    ours, theirs = Tiny().double(), Tiny().double()
    matrices = [theirs.embedding.weight, theirs.ffn[0].weight, theirs.ffn[3].weight]
    others = [*theirs.norm.parameters(), theirs.ffn[0].bias, theirs.ffn[3].bias]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    losses = train(ours, ragged, config, pad_loss, progress=False)
    expected = plain_run(theirs, config, ragged, groups)
    torch.testing.assert_close(losses, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)
    for name, value in theirs.named_parameters():
        torch.testing.assert_close(ours.get_parameter(name), value, rtol=0, atol=1e-12)


def test_the_mean_of_means_would_not_pass():
    batches = [ragged(i) for i in range(3)]
    model = Tiny().double()
    means = [next_token_loss(model(tokens), tokens, PAD).item() for tokens in batches]
    loss = train(model, ragged, TrainConfig(steps=1, accumulate=3), pad_loss, progress=False)[0]
    assert len({int((tokens[:, 1:] != PAD).sum()) for tokens in batches}) == 3
    assert abs(loss - sum(means) / 3) > 1e-3


def test_a_number_of_targets_may_be_a_plain_one():
    def loss(model, tokens):
        total, count = pad_loss(model, tokens)
        return total, int(count)

    config = TrainConfig(steps=2, accumulate=2)
    a, b = Tiny(), Tiny()
    assert same(
        train(a, ragged, config, loss, progress=False), train(b, ragged, config, pad_loss, progress=False)
    )
    assert same(bits(a), bits(b))


def test_what_is_frozen_stays_and_stale_gradients_do_not_count():
    ours, clean = Tiny(), Tiny()
    for model in (ours, clean):
        model.norm.requires_grad_(False)
    for parameter in ours.parameters():
        parameter.grad = torch.full_like(parameter, 7.0)
    before = ours.norm.weight.clone()
    config = TrainConfig(steps=2, clip_norm=0.1)
    train(ours, ragged, config, pad_loss, progress=False)
    train(clean, ragged, config, pad_loss, progress=False)
    assert torch.equal(ours.norm.weight, before)
    assert same(bits(ours), bits(clean))
    assert all(p.grad is None for p in ours.parameters() if p.requires_grad)


@pytest.mark.parametrize("empty", [torch.full((2, 4), PAD), torch.tensor([[3], [1]])])
def test_a_step_with_nothing_to_predict_is_refused_and_an_empty_part_is_not(empty):
    config = TrainConfig(steps=2, accumulate=2)
    model = Tiny()
    before = {name: p.clone() for name, p in model.named_parameters()}
    with pytest.raises(ValueError, match=r"expected batches with something to predict, got none; "):
        train(model, lambda i: empty, config, pad_loss, progress=False)
    assert same(before, dict(model.named_parameters()))
    assert all(p.grad is None for p in model.parameters())
    parts, whole = Tiny(), Tiny()
    losses = train(parts, lambda i: ragged(i // 2) if i % 2 else empty, config, pad_loss, progress=False)
    assert same(losses, train(whole, ragged, TrainConfig(steps=2), pad_loss, progress=False))
    assert same(dict(parts.named_parameters()), dict(whole.named_parameters()))


def test_bfloat16_computes_roughly_and_keeps_the_weights_in_float32():
    rough, exact = Tiny(), Tiny()
    seen = []
    rough.ffn[0].register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    config = {"steps": 6, "peak_lr": 0.01, "accumulate": 2}
    rough_losses = train(rough, ragged, TrainConfig(**config, bf16=True), pad_loss, progress=False)
    losses = train(exact, ragged, TrainConfig(**config), pad_loss, progress=False)
    assert set(seen) == {torch.bfloat16}
    assert {p.dtype for p in rough.parameters()} == {torch.float32} == {rough_losses.dtype}
    torch.testing.assert_close(rough_losses, losses, rtol=0.01, atol=0)
    assert not torch.equal(rough_losses, losses)


def test_a_first_loss_beyond_all_numbers_does_not_cost_the_run():
    def steep(model, batch):
        total, count = pad_loss(model, batch)
        return (total + math.inf if not model.seen > batch.numel() else total), count

    losses = train(Tiny(), ragged, TrainConfig(steps=3), steep, progress=False)
    assert losses.isinf().tolist() == [True, False, False]


def test_losses_of_single_samples_have_gradients():
    table, tokens = nn.Embedding(5, 5), torch.tensor([[1, 2, 3], [4, 0, 1]])

    def loss(weights, row):
        return summed_cross_entropy(torch.func.functional_call(table, weights, row[:-1]), row[1:])[0]

    weights = dict(table.named_parameters())
    each = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, tokens)["weight"]
    for row, gradient in zip(tokens, each, strict=True):
        torch.testing.assert_close(gradient, torch.func.grad(loss)(weights, row)["weight"])


def test_a_run_follows_from_its_seed():
    def losses(seed: int) -> torch.Tensor:
        torch.rand(random.randrange(1, 9))
        return train(Tiny(dropout=0.4), ragged, TrainConfig(steps=3, seed=seed), pad_loss, progress=False)

    assert same(losses(5), losses(5))
    assert not same(losses(5), losses(6))


def test_a_callback_may_leave_the_model_in_another_mode():
    a, b = Tiny(dropout=0.4), Tiny(dropout=0.4)
    steps = []
    config = TrainConfig(steps=4)

    def after_step(step: int) -> None:
        steps.append(step)
        a.eval()

    losses = train(a, ragged, config, pad_loss, after_step=after_step, progress=False)
    assert same(losses, train(b.eval(), ragged, config, pad_loss, progress=False))
    assert steps == [1, 2, 3, 4]


def test_the_bar_is_shown_if_asked_for(capsys):
    train(Tiny(), ragged, TrainConfig(steps=2), pad_loss, progress=False)
    assert capsys.readouterr() == ("", "")
    train(Tiny(), ragged, TrainConfig(steps=2), pad_loss)
    assert "2/2" in capsys.readouterr().err


# --- evaluation


def test_evaluation_is_the_mean_over_all_targets_without_dropout():
    model = Tiny(dropout=0.5).double()
    batches = [ragged(i) for i in range(4)]
    loss = evaluate(model, iter(batches), pad_loss)
    quiet = Tiny(dropout=0.0).double()
    parts = [looped_loss(quiet(tokens).detach(), tokens, PAD) for tokens in batches]
    assert loss == pytest.approx(sum(t for t, _ in parts) / sum(n for _, n in parts), rel=1e-12)


def test_evaluation_leaves_everything_as_it_was():
    model = Tiny(dropout=0.5)
    model.train()
    model.norm.eval()
    modes = [module.training for module in model.modules()]
    before, state = bits(model), random_state()
    evaluate(model, [ragged(0)], pad_loss)
    with pytest.raises(IndexError):
        evaluate(model, [torch.full((1, 3), VOCAB)], pad_loss)
    assert [module.training for module in model.modules()] == modes
    assert same((bits(model), random_state()), (before, state))
    assert all(p.grad is None for p in model.parameters())


def test_evaluation_keeps_nothing_for_a_backward_pass():
    parts = []

    def loss(model, tokens):
        parts.append(pad_loss(model, tokens))
        return parts[-1]

    evaluate(Tiny(), [ragged(0), ragged(1)], loss)
    assert [total.requires_grad for total, _ in parts] == [False, False]
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("batches", [[], [torch.full((2, 4), PAD)]])
def test_evaluation_of_nothing_is_refused(batches):
    with pytest.raises(ValueError, match="something to predict"):
        evaluate(Tiny(), batches, pad_loss)


# --- what is refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "expected steps as a whole number of 1 or more, got 0"),
        ({"steps": 1.5}, "expected steps as a whole number of 1 or more, got 1.5"),
        ({"steps": "5"}, "expected steps as a whole number of 1 or more, got '5'"),
        ({"peak_lr": 0.0}, "expected peak_lr above 0"),
        ({"peak_lr": math.inf}, "expected peak_lr above 0 and finite, got inf"),
        ({"peak_lr": "0.1"}, "expected peak_lr above 0 and finite, got '0.1'"),
        ({"warmup_steps": 11}, "expected warmup_steps as a whole number from 0 to steps = 10, got 11"),
        ({"warmup_steps": 0.5}, "expected warmup_steps as a whole number"),
        ({"warmup_steps": -1}, "expected warmup_steps"),
        ({"min_lr": 2.0}, "expected min_lr from 0 to peak_lr"),
        ({"weight_decay": -0.1}, "expected weight_decay"),
        ({"weight_decay": math.inf}, "expected weight_decay of 0 or more and finite, got inf"),
        ({"clip_norm": 0.0}, "expected clip_norm above 0; None for no limit, got 0.0"),
        ({"accumulate": 0}, "expected accumulate"),
        ({"accumulate": 2.0}, "expected accumulate as a whole number"),
        ({"betas": (0.9, 1.0)}, "expected betas as two from 0 to below 1"),
        ({"betas": (0.9,)}, r"expected betas as two from 0 to below 1, got \(0.9,\)"),
        ({"betas": 0.9}, "expected betas as two from 0 to below 1, got 0.9"),
        ({"seed": -1}, "expected seed as a whole number"),
        ({"seed": 0.5}, "expected seed as a whole number"),
    ],
)
def test_configs_that_make_no_sense_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**{"steps": 10, **change})


def test_a_loss_of_tokens_wants_tokens():
    batch = ragged(0), torch.zeros(2)
    with pytest.raises(ValueError, match=r"expected tokens \(B, T\), got tuple; the losses of tfcore.losses"):
        language_model_loss(Tiny(), batch)


def test_a_run_wants_parameters_and_steps_between_checkpoints():
    frozen = Tiny().requires_grad_(False)
    for model, every in ((frozen, 1), (nn.ReLU(), 1), (Tiny(), 0)):
        with pytest.raises(ValueError, match="expected parameters to train and checkpoint_every of 1"):
            train(model, ragged, TrainConfig(steps=1), checkpoint_every=every, progress=False)


def test_a_loss_that_is_a_mean_is_refused():
    def mean(model, tokens):
        return next_token_loss(model(tokens), tokens)

    for call in (
        lambda: train(Tiny(), ragged, TrainConfig(steps=1), mean, progress=False),
        lambda: evaluate(Tiny(), [ragged(0)], mean),
    ):
        with pytest.raises(ValueError, match=r"the sum over the targets and their number, got a Tensor"):
            call()


# --- a GPU


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_step_with_nothing_to_predict_is_noticed_on_a_gpu_at_the_end():
    empty = torch.full((2, 4), PAD, device="cuda")
    with pytest.raises(FloatingPointError, match=r"got nan at step 1; .* something to predict"):
        train(
            Tiny().cuda(),
            lambda i: ragged(i).cuda() if i != 1 else empty,
            TrainConfig(steps=3),
            pad_loss,
            progress=False,
        )
