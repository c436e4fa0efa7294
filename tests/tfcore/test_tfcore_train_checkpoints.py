"""Checkpoints that are broken or of another run are refused and change nothing; random states come back."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch
from tiny_language_model import HIDDEN, WIDTH, Tiny, bits, ragged, same
from torch import nn

from tfcore.checkpoint import load_checkpoint, random_state, save_checkpoint, set_random_state
from tfcore.losses import (
    language_model_loss,
)
from tfcore.train import (
    decay_groups,
)


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


def test_a_checkpoint_of_another_optimizer_is_refused_and_changes_nothing(run_file):
    model, optimizer = setting(Tiny(seed=3))
    groups = [{"params": group["params"]} for group in optimizer.param_groups]
    other = torch.optim.SGD(groups, lr=0.1)
    config = {"steps": 9, "betas": (0.9, 0.95)}
    refused(run_file, model, other, config, r"options = \['betas'\], here \['momentum'\]")


def test_random_states_come_back():
    state = random_state()
    first = random.random(), np.random.normal(), torch.rand(3)
    np.random.normal()
    set_random_state(state)
    assert same((random.random(), np.random.normal(), torch.rand(3)), first)
