"""Training: losses and schedules against torch; runs that are stopped anywhere and end in the same bits."""

from __future__ import annotations

import copy
import math
import random
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tfcore import checkpoint as checkpoint_room
from tfcore.checkpoint import load_checkpoint, random_state, save_checkpoint, set_random_state
from tfcore.data import Classification, Induction, LanguageModeling, Tagging
from tfcore.losses import (
    classification_loss,
    labeled_loss,
    language_model_loss,
    next_token_loss,
    sequence_to_sequence_loss,
    summed_cross_entropy,
    tagging_loss,
)
from tfcore.testing import raise_weights
from tfcore.train import (
    TrainConfig,
    decay_groups,
    evaluate,
    train,
    warmup_cosine,
)

VOCAB, WIDTH, HIDDEN, PAD = 13, 6, 10, 0


class Tiny(nn.Module):
    """A causal language model with all that a checkpoint must keep: tying, dropout, a buffer that changes."""

    def __init__(self, dropout: float = 0.0, seed: int = 0, tied: bool = True) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.ffn = nn.Sequential(
            nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Dropout(dropout), nn.Linear(HIDDEN, WIDTH)
        )
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        if tied:
            self.head.weight = self.embedding.weight
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.fill_(parameter is self.norm.weight)
        raise_weights(self, std=0.3, seed=seed)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen += tokens.numel()
        x = self.embedding(tokens)
        x = x.cumsum(1) / torch.arange(1, tokens.shape[1] + 1, device=x.device)[:, None].to(x.dtype)
        return self.head(x + self.ffn(self.norm(x)))


pad_loss = partial(language_model_loss, ignore_index=PAD)


def ragged(i: int) -> torch.Tensor:
    """Draw the i-th batch: 2 to 4 sequences of 3 to 9 tokens, some of them padding."""
    generator = torch.Generator().manual_seed(i)
    shape = (2 + i % 3, 3 + (4 * i) % 7)
    tokens = torch.randint(1, VOCAB, shape, generator=generator)
    tokens[0, 2 + i % 2 :] = PAD
    return tokens


def bits(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: x.clone() for name, x in model.state_dict().items()}


def same(a, b) -> bool:
    """Compare nested states bit for bit."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


# --- the loss


def looped_loss(logits: torch.Tensor, tokens: torch.Tensor, ignore_index: int) -> tuple[float, int]:
    total, count = 0.0, 0
    for row, sequence in zip(logits.double().tolist(), tokens.tolist(), strict=True):
        for scores, target in zip(row[:-1], sequence[1:], strict=True):
            if target != ignore_index:
                total += math.log(math.fsum(math.exp(s) for s in scores)) - scores[target]
                count += 1
    return total, count


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


# --- runs that are stopped

CONFIG = TrainConfig(steps=8, peak_lr=0.03, warmup_steps=3, accumulate=3, seed=11)


class Stopped(Exception):
    pass


def noisy(i: int) -> torch.Tensor:
    """Draw the i-th batch from i and from every global generator."""
    tokens = ragged(i)
    tokens[1, 1] = 1 + random.randrange(VOCAB - 1)
    tokens[1, 2] = 1 + np.random.randint(VOCAB - 1) + 0 * int(np.random.normal())
    return tokens


def stopping(at: int | None):
    def batches(i: int) -> torch.Tensor:
        if i == at:
            raise Stopped
        return noisy(i)

    return batches


def stopped_run(path, stops: list[int | None], every: int, bf16: bool = False):
    """Train in pieces, every piece in what could be another process: a new model, strange generators."""
    config = TrainConfig(**{**CONFIG.__dict__, "bf16": bf16})
    for n, stop in enumerate([*stops, None]):
        random.seed(n)
        np.random.seed(n)
        torch.manual_seed(n)
        model = Tiny(dropout=0.4, seed=n)
        try:
            losses = train(
                model,
                stopping(stop),
                config,
                pad_loss,
                checkpoint=path,
                checkpoint_every=every,
                progress=False,
            )
        except Stopped:
            continue
    saved = torch.load(path, weights_only=True)
    return losses, bits(model), random_state(), saved


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return stopped_run(tmp_path_factory.mktemp("runs") / "run.pt", [], every=100)


def test_dropout_and_generators_matter_to_the_run(undisturbed):
    losses, weights, _, _ = undisturbed
    model = Tiny(dropout=0.0)
    assert not same(train(model, noisy, CONFIG, pad_loss, progress=False), losses)
    model = Tiny(dropout=0.4)
    assert not same(train(model, ragged, CONFIG, pad_loss, progress=False), losses)
    model = Tiny(dropout=0.4)
    assert same(train(model, noisy, CONFIG, pad_loss, progress=False), losses)
    assert same(bits(model), weights)


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize(
    "stops", [[0], [2], [3], [8], [9], [13], [23], [4, 4, 10, 22]], ids=lambda s: "-".join(map(str, s))
)
def test_a_run_stopped_at_any_batch_ends_in_the_same_bits(undisturbed, tmp_path, stops, every):
    assert same(stopped_run(tmp_path / "run.pt", stops, every), undisturbed)


def test_a_run_in_bfloat16_ends_in_the_same_bits(tmp_path):
    whole = stopped_run(tmp_path / "whole.pt", [], every=100, bf16=True)
    assert same(stopped_run(tmp_path / "run.pt", [7, 16], every=1, bf16=True), whole)


def test_a_finished_run_only_comes_back(undisturbed, tmp_path):
    path = tmp_path / "run.pt"
    stopped_run(path, [], every=100)
    model = Tiny(dropout=0.4, seed=5)
    losses = train(model, stopping(0), CONFIG, pad_loss, checkpoint=path, progress=False)
    assert same((losses, bits(model), random_state()), undisturbed[:3])


def test_a_process_killed_while_writing_leaves_the_old_checkpoint(undisturbed, tmp_path, monkeypatch):
    path = tmp_path / "run.pt"
    real, calls = torch.save, []

    def dying(content, file):
        calls.append(0)
        if len(calls) == 5:
            file.write(b"half")
            raise Stopped
        real(content, file)

    monkeypatch.setattr(checkpoint_room.torch, "save", dying)
    with pytest.raises(Stopped):
        train(Tiny(dropout=0.4), noisy, CONFIG, pad_loss, checkpoint=path, checkpoint_every=1, progress=False)
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]
    assert len(torch.load(path, weights_only=True)["losses"]) == 3
    assert same(stopped_run(path, [], every=1), undisturbed)


def test_evaluating_on_the_way_disturbs_nothing(undisturbed):
    model = Tiny(dropout=0.4)
    curve = []
    losses = train(
        model,
        noisy,
        CONFIG,
        pad_loss,
        after_step=lambda step: curve.append(evaluate(model, [ragged(1), ragged(2)], pad_loss)),
        progress=False,
    )
    assert same((losses, bits(model), random_state()), undisturbed[:3])
    assert len(set(curve)) == CONFIG.steps


def test_a_loss_that_is_no_number_is_not_written(tmp_path):
    path = tmp_path / "run.pt"
    config = TrainConfig(steps=6)

    def exploding(model, tokens):
        total, count = pad_loss(model, tokens)
        return total * (math.inf if model.seen > 100 else 1.0), count

    with pytest.raises(FloatingPointError, match=r"got (inf|nan) at step [1-5];"):
        train(Tiny(), ragged, config, exploding, checkpoint=path, checkpoint_every=1, progress=False)
    saved = torch.load(path, weights_only=True)
    assert saved["losses"].isfinite().all()
    assert all(x.isfinite().all() for x in saved["model"].values())


def test_weights_that_are_no_numbers_are_not_written(tmp_path):
    path = tmp_path / "run.pt"
    model = nn.Embedding(VOCAB, VOCAB)

    def steep(model, tokens):
        total, count = pad_loss(model, tokens)
        return total + (0 * model.weight.sum()).abs().sqrt(), count  # finite, but its gradient is not

    with pytest.raises(FloatingPointError, match=r"expected finite weights .* after step 0;"):
        train(model, ragged, TrainConfig(steps=1), steep, checkpoint=path, progress=False)
    assert torch.load(path, weights_only=True)["model"]["weight"].isfinite().all()


def test_losses_and_weights_that_are_no_numbers_are_not_returned():
    def nothing(model, tokens):
        total, count = pad_loss(model, tokens)
        return total * math.nan, count

    with pytest.raises(FloatingPointError, match=r"expected finite losses, got nan at step 0; start anew"):
        train(Tiny(), ragged, TrainConfig(steps=3), nothing, progress=False)

    def steep(model, tokens):
        total, count = pad_loss(model, tokens)
        return total + (0 * model.norm.bias.sum()).abs().sqrt(), count

    with pytest.raises(FloatingPointError, match=r"expected finite weights, got others after step 0; start"):
        train(Tiny(), ragged, TrainConfig(steps=1), steep, progress=False)


# --- checkpoints that do not fit


def setting(model: nn.Module | None = None):
    model = model or Tiny(seed=3)
    optimizer = torch.optim.AdamW(decay_groups(model, 0.1))
    language_model_loss(model, ragged(0))[0].backward()
    optimizer.step()
    return model, optimizer


@pytest.fixture
def run_file(tmp_path):
    path = tmp_path / "run.pt"
    model, optimizer = setting(Tiny(seed=0))
    save_checkpoint(path, model, optimizer, torch.ones(4), {"steps": 9, "betas": (0.9, 0.95)})
    return path


def refused(path, model, optimizer, config, message):
    before = bits(model), optimizer.state_dict(), random_state()
    before = copy.deepcopy(before)
    with pytest.raises(ValueError, match=message) as raised:
        load_checkpoint(path, model, optimizer, config)
    assert str(path) in str(raised.value)
    assert same((bits(model), optimizer.state_dict(), random_state()), before)


class Malice:
    def __reduce__(self):
        return print, ("code was run",)


@pytest.mark.parametrize(
    "kind", ["empty", "start", "half", "most", "text", "weights", "list", "code", "other"]
)
def test_broken_and_foreign_files_are_refused_and_change_nothing(run_file, kind, capsys):
    whole = run_file.read_bytes()
    model, optimizer = setting()
    contents = {"weights": Tiny().state_dict(), "list": [1, 2], "code": Malice(), "other": {"model": {}}}
    if kind in contents:
        torch.save(contents[kind], run_file)
    else:
        cuts = {"empty": 0, "start": 40, "half": len(whole) // 2, "most": len(whole) - 30}
        run_file.write_bytes(b"step,loss\n1,2.5\n" if kind == "text" else whole[: cuts[kind]])
    refused(run_file, model, optimizer, {"steps": 9, "betas": (0.9, 0.95)}, "cut short or of another kind")
    assert "code was run" not in capsys.readouterr().out


class Reordered(Tiny):
    def __init__(self) -> None:
        super().__init__(seed=3)
        self.norm = self._modules.pop("norm")


class Wider(Tiny):
    def __init__(self) -> None:
        super().__init__(seed=3)
        self.ffn[0] = nn.Linear(WIDTH, HIDDEN + 1)
        self.ffn[3] = nn.Linear(HIDDEN + 1, WIDTH)


@pytest.mark.parametrize(
    ("model", "config", "message"),
    [
        (Tiny(seed=3), {"steps": 8, "betas": (0.9, 0.95)}, "config.steps = 9, here 8"),
        (Tiny(seed=3), {"steps": 9}, r"config.betas = \(0.9, 0.95\), here None"),
        (Wider(), None, r"model.ffn.0.bias = torch.float32 \(10,\), here torch.float32 \(11,\)"),
        (Reordered(), None, r"got norm.weight in the place of ffn.0.weight"),
        (Tiny(seed=3).double(), None, "model.embedding.weight = torch.float32 .*, here torch.float64"),
        (Tiny(seed=3, tied=False), None, "optimizer.group0 = 3 parameters, here 4 parameters"),
    ],
    ids=["config", "config lacks", "shape", "order", "dtype", "tying"],
)
def test_checkpoints_of_another_run_are_refused_and_change_nothing(run_file, model, config, message):
    refused(run_file, *setting(model), config or {"steps": 9, "betas": (0.9, 0.95)}, message)


def test_train_names_the_file_that_it_cannot_go_on_from(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a checkpoint")
    model = Tiny()
    before = bits(model)
    with pytest.raises(ValueError, match=r"notes\.txt"):
        train(model, ragged, CONFIG, pad_loss, checkpoint=path, progress=False)
    assert same(bits(model), before)
    assert path.read_text() == "not a checkpoint"


def test_random_states_come_back():
    state = random_state()
    first = random.random(), np.random.normal(), torch.rand(3)
    np.random.normal()
    set_random_state(state)
    assert same((random.random(), np.random.normal(), torch.rand(3)), first)


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


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("bf16", [False, True])
def test_a_run_on_a_gpu_ends_in_the_same_bits(tmp_path, bf16):
    config = TrainConfig(**{**CONFIG.__dict__, "bf16": bf16})

    def run(path, stops):
        for n, stop in enumerate([*stops, None]):
            torch.manual_seed(n)
            model = Tiny(dropout=0.4, seed=n).cuda()
            batches = stopping(stop)
            try:
                losses = train(
                    model,
                    lambda i, batches=batches: batches(i).cuda(),
                    config,
                    pad_loss,
                    checkpoint=path,
                    checkpoint_every=1,
                    progress=False,
                )
            except Stopped:
                continue
        return losses, bits(model), random_state()

    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        assert same(run(tmp_path / "run.pt", [7, 16]), run(tmp_path / "whole.pt", []))
    finally:
        torch.use_deterministic_algorithms(False)
