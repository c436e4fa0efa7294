"""What it takes to train a model: a loss, a schedule, parameter groups, and a loop that can be stopped.

Everything that decides the numbers of a run is in its ``TrainConfig``, in its model, and in a function from
i to the i-th batch. A run is then a function of its step, and a run that was stopped goes on bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from tqdm import tqdm

from tfcore.checkpoint import load_checkpoint, save_checkpoint, seed_everything
from tfcore.inspection import can_look
from tfcore.losses import language_model_loss

Loss = Callable[[nn.Module, Any], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class TrainConfig:
    r"""The numbers of a run of AdamW with warm-up, cosine decay, clipping and accumulation.

    Args:
        steps: number of updates.
        peak_lr: highest learning rate; see :func:`warmup_cosine`.
        warmup_steps: steps until it is reached.
        min_lr: where the cosine ends.
        betas: decay rates of AdamW's running means of gradient and squared gradient.
        weight_decay: of matrices; see :func:`decay_groups`.
        clip_norm: largest norm of the whole gradient; None for no limit.
        accumulate: batches per step.
        bf16: compute in bfloat16 where autocast deems it safe; weights and their updates stay as they are.
        seed: of every global generator, set before the first step.

    Raises:
        ValueError: a number out of its range.

    From: Loshchilov and Hutter (2019), *Decoupled Weight Decay Regularization*; the defaults are from
    Brown et al. (2020), *Language Models are Few-Shot Learners*, appendix B, but for the learning rate
    and its schedule.

    >>> print(TrainConfig(steps=100, peak_lr=3e-3).clip_norm)
    1.0
    """

    steps: int
    peak_lr: float = 1e-3
    warmup_steps: int = 0
    min_lr: float = 0.0
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.1
    clip_norm: float | None = 1.0
    accumulate: int = 1
    bf16: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        steps, warmup, peak = _whole(self.steps), _whole(self.warmup_steps), _real(self.peak_lr)
        pair = isinstance(self.betas, tuple | list) and len(self.betas) == 2
        rules = {
            "steps": (steps >= 1, "as a whole number of 1 or more"),
            "peak_lr": (0 < peak < math.inf, "above 0 and finite"),
            "warmup_steps": (0 <= warmup <= steps, f"as a whole number from 0 to steps = {steps}"),
            "min_lr": (0 <= _real(self.min_lr) <= peak, f"from 0 to peak_lr = {peak}"),
            "weight_decay": (0 <= _real(self.weight_decay) < math.inf, "of 0 or more and finite"),
            "clip_norm": (self.clip_norm is None or _real(self.clip_norm) > 0, "above 0; None for no limit"),
            "betas": (pair and all(0 <= _real(beta) < 1 for beta in self.betas), "as two from 0 to below 1"),
            "accumulate": (_whole(self.accumulate) >= 1, "as a whole number of 1 or more"),
            "seed": (0 <= _whole(self.seed) < 2**32, "as a whole number from 0 to below 2**32"),
        }
        for name, (right, expected) in rules.items():
            if not right:
                raise ValueError(f"expected {name} {expected}, got {getattr(self, name)!r}; change it")

    def lr(self, step: int) -> float:
        """Give the learning rate of a step, counted from 0."""
        return warmup_cosine(
            step,
            peak_lr=self.peak_lr,
            total_steps=self.steps,
            warmup_steps=self.warmup_steps,
            min_lr=self.min_lr,
        )


def warmup_cosine(
    step: int, *, peak_lr: float, total_steps: int, warmup_steps: int = 0, min_lr: float = 0.0
) -> float:
    r"""Give the learning rate of a step: up in a straight line, down by half a cosine.

    $\frac{t + 1}{w + 1} \eta_{\max}$ before step w; from there to step T, where it stays,
    $\eta_{\min} + \tfrac12 (\eta_{\max} - \eta_{\min}) (1 + \cos \pi \frac{t - w}{T - w})$.

    No step is wasted on a learning rate of 0; step w, the first after the warm-up, has the highest.

    Args:
        step: t, counted from 0.
        peak_lr: the highest learning rate.
        total_steps: steps in all, T.
        warmup_steps: w, 0 for none.
        min_lr: the learning rate from step T on.

    Returns:
        The learning rate.

    From: Goyal et al. (2017), *Accurate, Large Minibatch SGD* (warm-up); Loshchilov and Hutter (2017), *SGDR:
    Stochastic Gradient Descent with Warm Restarts* (cosine).

    >>> plan = {"peak_lr": 3.0, "total_steps": 8, "warmup_steps": 2}
    >>> rates = [warmup_cosine(t, **plan) for t in (0, 1, 2, 5, 8)]
    >>> print([round(rate, 4) for rate in rates])
    [1.0, 2.0, 3.0, 1.5, 0.0]
    """
    if step >= total_steps:
        return min_lr
    if step < warmup_steps:
        return peak_lr * (step + 1) / (warmup_steps + 1)
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    return min_lr + (peak_lr - min_lr) * (1 + math.cos(math.pi * progress)) / 2


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    r"""Sort the parameters of a model for AdamW: matrices are drawn towards zero, all others are not.

    $W \leftarrow (1 - \eta \lambda) W$ for projections and embeddings, not for biases and norms.

    A parameter in two places, as a tied embedding is, counts once; frozen parameters are left out. Mamba's
    ``A_log`` does not decay either: it holds logarithms of rates, and 0 is not a neutral value for them.

    Args:
        model: any module.
        weight_decay: $\lambda$, for the matrices.

    Returns:
        Two groups for ``torch.optim``: parameters that decay, and parameters that do not.

    From: Loshchilov and Hutter (2019); GPT-2's and GPT-3's many reimplementations use this rule.

    >>> groups = decay_groups(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)), 0.1)
    >>> print([(len(group["params"]), group["weight_decay"]) for group in groups])
    [(1, 0.1), (3, 0.0)]
    """
    decays: dict[Tensor, bool] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.requires_grad:
                matrix = (
                    parameter.ndim >= 2
                    and name not in ("bias", "A_log", "b_gate", "b_up", "b_down")
                    and not isinstance(module, nn.LayerNorm | nn.RMSNorm)
                )
                decays.setdefault(parameter, matrix)
    return [
        {"params": [p for p, matrix in decays.items() if matrix], "weight_decay": weight_decay},
        {"params": [p for p, matrix in decays.items() if not matrix], "weight_decay": 0.0},
    ]


def train(
    model: nn.Module,
    batches: Callable[[int], Any],
    config: TrainConfig,
    loss: Loss = language_model_loss,
    *,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 100,
    after_step: Callable[[int], object] | None = None,
    progress: bool = True,
) -> Float[Tensor, " steps"]:
    r"""Train a model; go on from the checkpoint if there is one.

    $g = \sum_i \nabla L_i \big/ \sum_i N_i$ over a step's batches, which is the gradient of one mean.

    A run that was stopped at any time ends in the same bits as a run that was not stopped: on a CPU with the
    same number of threads, on a GPU with deterministic kernels (``torch.use_deterministic_algorithms``).

    Args:
        model: changed in place, and left in training mode: ``model.eval()`` switches dropout off.
        batches: maps i = 0, 1, ... to the i-th batch, on the model's device; ``accumulate`` of them make a
            step. What it draws must follow from i or come from the global generators.
        config: the numbers of the run.
        loss: maps model and batch to the sum of the loss over the targets, and their number;
            ``tfcore.losses`` has one for each kind of batch of ``tfcore.data``.
        checkpoint: file to go on from, if it exists, and to write to.
        checkpoint_every: steps between two writes; the start and the end of the run are written as well.
        after_step: called with the number of steps made, to evaluate or to print.
        progress: show a bar.

    Returns:
        The mean loss of each step, (steps,), of those before the checkpoint as well.

    Raises:
        ValueError: a checkpoint that is broken or of another run, nothing to train, or no target in a step.
        FloatingPointError: a loss or a weight is NaN or infinite where a checkpoint would be written; at the
            end, the last loss or a weight is. A GPU is not waited for, so there a step without anything to
            predict has such a loss.

    >>> model = nn.Embedding(4, 4)
    >>> tokens = torch.tensor([[0, 1, 2, 3, 0, 1]])
    >>> losses = train(model, lambda i: tokens, TrainConfig(steps=50, peak_lr=0.3), progress=False)
    >>> print(bool(losses[-1] < 0.1))
    True
    """
    groups = decay_groups(model, config.weight_decay)
    parameters = [parameter for group in groups for parameter in group["params"]]
    if not parameters or checkpoint_every < 1:
        raise ValueError(
            f"expected parameters to train and checkpoint_every of 1 or more, got {len(parameters)} and "
            f"{checkpoint_every}; leave some requires_grad, and write every so many steps"
        )
    device = parameters[0].device
    optimizer = torch.optim.AdamW(groups, betas=config.betas, fused=device.type in ("cpu", "cuda"))
    losses = [each.to(device) for each in _resume(checkpoint, model, optimizer, config)]
    model.train()
    start, steps = len(losses), config.steps
    bar = tqdm(range(start, steps), initial=start, total=steps, disable=not progress)
    for step in bar:
        losses.append(_step(model, parameters, optimizer, batches, loss, config, step))
        if progress and step % 10 == 0:  # to look at a number is to wait for the GPU
            bar.set_postfix(loss=f"{losses[-1].item():.4f}")
        if after_step is not None:
            after_step(step + 1)
        if checkpoint is not None and (step + 1 == steps or (step + 1) % checkpoint_every == 0):
            finite = _finite(losses, parameters, " to write a checkpoint")
            save_checkpoint(checkpoint, model, optimizer, finite, asdict(config))
    if not all(x.isfinite().all() for x in (losses[-1], *parameters)):
        _finite(losses, parameters)  # says where
    return torch.stack(losses).cpu()


def evaluate(model: nn.Module, batches: Iterable[Any], loss: Loss = language_model_loss) -> float:
    r"""Average the loss over all targets of some batches, without dropout and without gradients.

    $\sum_i L_i \big/ \sum_i N_i$.

    Args:
        model: left as it was, each of its modules in the mode it was in.
        batches: on the model's device.
        loss: as in :func:`train`.

    Returns:
        The mean.

    Raises:
        ValueError: batches without anything to predict.

    >>> model = nn.Embedding(4, 4)
    >>> _ = nn.init.zeros_(model.weight)
    >>> print(round(evaluate(model, [torch.tensor([[0, 1, 2]])]), 4))
    1.3863
    """
    modes = {module: module.training for module in model.modules()}
    total, count = 0.0, 0
    try:
        model.eval()
        with torch.no_grad():
            for batch in batches:
                part, number = _sum_and_number(loss(model, batch))
                total, count = total + part.item(), count + int(number)
    finally:
        for module, mode in modes.items():
            module.training = mode
    _require_targets(count)
    return total / count


def _whole(value: Any) -> Any:
    return value if isinstance(value, Integral) else math.nan  # which no range holds


def _real(value: Any) -> Any:
    return value if isinstance(value, Real) else math.nan


def _resume(
    checkpoint: str | Path | None, model: nn.Module, optimizer: torch.optim.Optimizer, config: TrainConfig
) -> list[Tensor]:
    """Go on from the checkpoint, or seed a new run and write its start; return the losses so far."""
    optimizer.zero_grad()
    if checkpoint is not None and Path(checkpoint).exists():
        return list(load_checkpoint(checkpoint, model, optimizer, asdict(config)))
    seed_everything(config.seed)
    if checkpoint is not None:  # a model that a stopped run has changed begins here again
        save_checkpoint(checkpoint, model, optimizer, torch.zeros(0), asdict(config))
    return []


def _step(
    model: nn.Module,
    parameters: list[nn.Parameter],
    optimizer: torch.optim.Optimizer,
    batches: Callable[[int], Any],
    loss: Loss,
    config: TrainConfig,
    step: int,
) -> Tensor:
    """Update the model once: gradient, clipping, learning rate, AdamW; return the mean loss before it."""
    model.train()
    micro_batches = map(batches, range(step * config.accumulate, (step + 1) * config.accumulate))
    try:
        mean = _backward(model, parameters, loss, micro_batches, config.bf16)
    except BaseException:
        optimizer.zero_grad()  # a caller that goes on must not start with a partial gradient
        raise
    if config.clip_norm is not None:
        nn.utils.clip_grad_norm_(parameters, config.clip_norm)
    for group in optimizer.param_groups:
        group["lr"] = config.lr(step)
    optimizer.step()
    optimizer.zero_grad()
    return mean


def _backward(
    model: nn.Module, parameters: list[nn.Parameter], loss: Loss, batches: Iterable[Any], bf16: bool
) -> Tensor:
    """Leave the gradient of the mean over all targets of the batches in the parameters; return that mean."""
    device = parameters[0].device
    total = torch.zeros((), device=device)
    count = torch.zeros((), device=device, dtype=torch.long)
    for batch in batches:
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            part, number = _sum_and_number(loss(model, batch))
        part.backward()
        total, count = total + part.detach(), count + number
    if can_look(count):
        _require_targets(count)
    divisor = count.clamp(min=1)
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad /= divisor
    return total / count


def _require_targets(count: Any) -> None:
    if count == 0:
        raise ValueError(
            "expected batches with something to predict, got none; look at ignore_index, and give a language "
            "model two tokens or more"
        )


def _sum_and_number(result: Any) -> tuple[Tensor, Tensor]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise ValueError(
            "expected loss to return the sum over the targets and their number, got a "
            f"{type(result).__name__}; see tfcore.losses"
        )
    return result


def _finite(losses: list[Tensor], parameters: list[nn.Parameter], purpose: str = "") -> Tensor:
    stacked = torch.stack(losses).cpu()
    found = ""
    if not stacked.isfinite().all():
        step = int(stacked.isfinite().int().argmin())
        found = f"losses{purpose}, got {stacked[step]} at step {step}"
    elif not all(parameter.isfinite().all() for parameter in parameters):
        found = f"weights{purpose}, got others after step {len(losses) - 1}"
    if found:
        kept = "the last checkpoint is as it was: remove it and " if purpose else ""
        raise FloatingPointError(
            f"expected finite {found}; {kept}start again with a lower peak_lr, a longer warm-up, or batches "
            "with something to predict"
        )
    return stacked
