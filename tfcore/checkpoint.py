"""A training run on disk: all it takes to go on as if it had never stopped, and never half of it."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

OPTIONS = {"betas", "momentum", "alpha", "rho", "lr_decay"}
"""Options that tell the kinds of optimizers apart: Adam has the first, SGD the second, others the rest."""


def save_checkpoint(
    path: str | Path,
    model: nn.Module,
    optimizer: Optimizer,
    losses: Tensor,
    config: Mapping[str, Any],
) -> None:
    r"""Write where a run has come to; the new file takes the old one's place, or the old one stays.

    $(\theta_t, m_t, v_t, t, \text{random states})$: what follows depends on nothing else.

    The file is written under another name, flushed to the disk and then renamed, and a rename is one act:
    whoever stops the process at any moment finds the old checkpoint or the new one, whole.

    Args:
        path: of the file; its folder must exist.
        model: its weights and buffers are kept.
        optimizer: its state is kept.
        losses: of the steps made so far, (step,).
        config: the settings of the run, in plain values.

    >>> import tempfile
    >>> layer = nn.Linear(2, 3)
    >>> optimizer = torch.optim.AdamW(layer.parameters())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_checkpoint(f"{folder}/run.pt", layer, optimizer, torch.ones(2), {"seed": 0})
    ...     print(load_checkpoint(f"{folder}/run.pt", layer, optimizer, {"seed": 0}))
    tensor([1., 1.])
    """
    path = Path(path)
    unfinished = path.with_name(path.name + ".unfinished")
    content = {
        "config": dict(config),
        "losses": losses,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "random": random_state(),
    }
    try:
        with unfinished.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def load_checkpoint(
    path: str | Path, model: nn.Module, optimizer: Optimizer, config: Mapping[str, Any]
) -> Tensor:
    """Bring model, optimizer and random states back to where :func:`save_checkpoint` found them.

    Nothing is changed before the whole file is read and known to fit. Only tensors and plain values are read,
    so that a file from elsewhere cannot run code.

    Args:
        path: of the file.
        model: with weights of the same names and shapes, whatever their numbers.
        optimizer: of the same kind, with the same groups of parameters.
        config: equal to the one saved.

    Returns:
        The losses of the steps made, (step,).

    Raises:
        ValueError: a file that is broken, no checkpoint, or of a run with another model or config.

    >>> import tempfile
    >>> ours, other = nn.Linear(2, 3), nn.Linear(2, 3)
    >>> optimizers = [torch.optim.SGD(layer.parameters()) for layer in (ours, other)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_checkpoint(f"{folder}/run.pt", ours, optimizers[0], torch.ones(4), {"seed": 0})
    ...     losses = load_checkpoint(f"{folder}/run.pt", other, optimizers[1], {"seed": 0})
    >>> print(losses, torch.equal(other.weight, ours.weight))
    tensor([1., 1., 1., 1.]) True
    """
    with Path(path).open("rb") as file:
        try:
            saved = torch.load(file, map_location="cpu", weights_only=True)
            there = _outline(saved["config"], saved["model"], saved["optimizer"])
            losses, randomness = saved["losses"], saved["random"]
            _ = [randomness[name] for name in ("python", "numpy", "torch", "cuda")]
        except Exception as error:  # torch raises what it pleases
            raise ValueError(
                f"expected a checkpoint of a training run in {path}, got {type(error).__name__} on reading; "
                "it is cut short or of another kind: remove it to start again, or name another file"
            ) from error
    here = _outline(config, model.state_dict(), optimizer.state_dict())
    if different := sorted(name for name in here | there if here.get(name) != there.get(name)):
        name = different[0]
        raise ValueError(
            f"expected a checkpoint of this run in {path}, got one with {name} = {there.get(name)}, here "
            f"{here.get(name)}; use the model and config of that run, or another file"
        )
    for theirs, ours in zip(saved["model"], model.state_dict(), strict=True):
        if theirs != ours:  # an optimizer knows its parameters by their place
            raise ValueError(
                f"expected a checkpoint in {path} with the weights in the model's order, got {theirs} in the "
                f"place of {ours}; declare them as that run did, or name another file"
            )
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    set_random_state(randomness)
    return losses


def seed_everything(seed: int) -> None:
    """Seed the global generators of Python, numpy and torch, on every device.

    >>> seed_everything(3)
    >>> first = torch.rand(2)
    >>> seed_everything(3)
    >>> bool((torch.rand(2) == first).all())
    True
    """
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def random_state() -> dict[str, Any]:
    """Note where the global generators of Python, numpy and torch are, in tensors and plain values.

    >>> state = random_state()
    >>> first = torch.rand(2)
    >>> set_random_state(state)
    >>> bool((torch.rand(2) == first).all())
    True
    """
    kind, key, *rest = np.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": (kind, torch.from_numpy(key), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_random_state(state: Mapping[str, Any]) -> None:
    """Bring the global generators back to a :func:`random_state`; GPUs that are not here are left out.

    >>> state = random_state()
    >>> first = random.random(), np.random.rand()
    >>> set_random_state(state)
    >>> (random.random(), np.random.rand()) == first
    True
    """
    kind, key, *rest = state["numpy"]
    random.setstate(state["python"])
    np.random.set_state((kind, key.numpy(), *rest))
    torch.set_rng_state(state["torch"])
    for device, generator in enumerate(state["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(generator, device)


def _outline(
    config: Mapping[str, Any], model: Mapping[str, Any], optimizer: Mapping[str, Any]
) -> dict[str, Any]:
    """List by name the facts that must be the same in a checkpoint and in the run that goes on from it."""
    groups = optimizer["param_groups"]
    return (
        {f"config.{name}": value for name, value in config.items()}
        | {f"model.{name}": f"{x.dtype} {tuple(x.shape)}" for name, x in model.items()}
        | {f"optimizer.group{i}": f"{len(group['params'])} parameters" for i, group in enumerate(groups)}
        | {f"optimizer.group{i}.options": sorted(OPTIONS & group.keys()) for i, group in enumerate(groups)}
    )
