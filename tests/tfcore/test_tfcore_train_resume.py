"""Runs that are stopped anywhere, resumed from their checkpoint, and end in the same bits."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch
from tiny_language_model import VOCAB, Tiny, bits, pad_loss, ragged, same
from torch import nn

from tfcore import checkpoint as checkpoint_room
from tfcore.checkpoint import random_state
from tfcore.train import (
    TrainConfig,
    evaluate,
    train,
)

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


@pytest.mark.slow
def test_dropout_and_generators_matter_to_the_run(undisturbed):
    losses, weights, _, _ = undisturbed
    model = Tiny(dropout=0.0)
    assert not same(train(model, noisy, CONFIG, pad_loss, progress=False), losses)
    model = Tiny(dropout=0.4)
    assert not same(train(model, ragged, CONFIG, pad_loss, progress=False), losses)
    model = Tiny(dropout=0.4)
    assert same(train(model, noisy, CONFIG, pad_loss, progress=False), losses)
    assert same(bits(model), weights)


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize(
    "stops", [[0], [2], [3], [8], [9], [13], [23], [4, 4, 10, 22]], ids=lambda s: "-".join(map(str, s))
)
def test_a_run_stopped_at_any_batch_ends_in_the_same_bits(undisturbed, tmp_path, stops, every):
    assert same(stopped_run(tmp_path / "run.pt", stops, every), undisturbed)


@pytest.mark.slow
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

    with pytest.raises(FloatingPointError, match=r"expected finite losses, got nan at step 0; start again"):
        train(Tiny(), ragged, TrainConfig(steps=3), nothing, progress=False)

    def steep(model, tokens):
        total, count = pad_loss(model, tokens)
        return total + (0 * model.norm.bias.sum()).abs().sqrt(), count

    with pytest.raises(FloatingPointError, match=r"expected finite weights, got others after step 0; start"):
        train(Tiny(), ragged, TrainConfig(steps=1), steep, progress=False)


def test_a_last_loss_that_is_infinite_is_reported():
    def at_the_end(model, tokens):
        total, count = pad_loss(model, tokens)
        seen.append(total)
        return (total + math.inf if len(seen) == 3 else total), count

    seen = []
    with pytest.raises(FloatingPointError, match=r"expected finite losses, got inf at step 2; start"):
        train(Tiny(), ragged, TrainConfig(steps=3), at_the_end, progress=False)


def test_train_names_the_file_that_it_cannot_go_on_from(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a checkpoint")
    model = Tiny()
    before = bits(model)
    with pytest.raises(ValueError, match=r"notes\.txt"):
        train(model, ragged, CONFIG, pad_loss, checkpoint=path, progress=False)
    assert same(bits(model), before)
    assert path.read_text() == "not a checkpoint"


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


def test_a_run_that_goes_on_at_its_end_leaves_the_model_in_training_mode(tmp_path):
    path, config = tmp_path / "run.pt", TrainConfig(steps=2, peak_lr=0.1)
    for _ in range(2):
        model = Tiny().eval()
        train(model, noisy, config, checkpoint=path, progress=False)
        assert model.training


def test_a_checkpoint_without_its_generators_changes_nothing(tmp_path):
    path, config = tmp_path / "run.pt", TrainConfig(steps=2, peak_lr=0.1)
    train(Tiny(), noisy, config, checkpoint=path, progress=False)
    torch.save({**torch.load(path, weights_only=True), "random": {}}, path)
    model = Tiny()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    with pytest.raises(ValueError, match="cut short or of another kind"):
        train(model, noisy, config, checkpoint=path, progress=False)
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
