"""Lines: losses over the steps of training, singular values of matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfcore.viz.style import INK, PALETTE
from tfcore.viz.words import counted, describe, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES = ("-", "--", ":", "-.")


def loss_curves(axes: Axes, curves: Mapping[str, Any], steps: Any = None, bound: float | None = None) -> Axes:
    """Draw losses over the steps of training, and the best possible loss as a dashed line.

    Args:
        axes: where to draw.
        curves: losses (n,) by name.
        steps: the step of each loss, (n,); 0 ... n - 1 when None.
        bound: the lowest possible loss, such as ``Split.best_loss``.

    Returns:
        The axes.

    Raises:
        ValueError: no curve by name, or one whose losses are not as many as the steps.

    >>> from matplotlib.figure import Figure
    >>> from tfcore.viz import alt_text
    >>> axes = loss_curves(Figure().subplots(), {"train": [2.0, 1.0, 0.75]}, bound=0.5)
    >>> alt_text(axes)
    'Line chart of losses from step 0 to 2. train: from 2.00 to 0.75, lowest 0.75. Best ...'
    """
    _require_some(curves)
    sentences, first, last = [], np.inf, -np.inf
    for number, (name, losses) in enumerate(curves.items()):
        y = numbers(losses, f"the losses of {name}", "n")
        x = np.arange(len(y)) if steps is None else numbers(steps, "steps", "n")
        if x.shape != y.shape:
            raise ValueError(
                f"expected one loss for each of {len(x)} steps, got {len(y)} of {name}; "
                "draw curves of different lengths one by one"
            )
        axes.plot(x, y, label=name, **_line(number))
        first, last = min(first, x[0]), max(last, x[-1])
        sentences.append(f"{name}: from {y[0]:.2f} to {y[-1]:.2f}, lowest {np.nanmin(y):.2f}.")
    if bound is not None:
        axes.axhline(bound, color=INK, linestyle="--", linewidth=1, label="best possible")
        sentences.append(f"Best possible: {bound:.2f}.")
    axes.set_xlabel("step")
    axes.set_ylabel("loss (nats per token)")
    axes.legend()
    describe(axes, f"Line chart of losses from step {first:.0f} to {last:.0f}. {' '.join(sentences)}")
    return axes


def spectra(axes: Axes, matrices: Mapping[str, Any]) -> Axes:
    r"""Draw the singular values of matrices, largest first, on a logarithmic scale.

    $W = U \operatorname{diag}(\sigma) V^\top$; how fast $\sigma_i$ falls tells how few directions W uses.

    Args:
        axes: where to draw.
        matrices: matrices of any shapes by name.

    Returns:
        The axes.

    Raises:
        ValueError: no matrix by name, or a matrix with infinity or NaN.

    >>> from matplotlib.figure import Figure
    >>> from tfcore.viz import alt_text
    >>> alt_text(spectra(Figure().subplots(), {"W_q": np.diag([4.0, 1.0, 1.0])}))
    'Line chart of singular values. W_q: 3 values from 4 to 1; 90% of the sum of squares ...'
    """
    _require_some(matrices)
    sentences = []
    for number, (name, matrix) in enumerate(matrices.items()):
        sigma = np.linalg.svd(numbers(matrix, name, "rows columns", finite=True), compute_uv=False)
        axes.plot(np.arange(1, len(sigma) + 1), sigma, label=name, marker=".", **_line(number))
        share = np.cumsum(sigma**2) / max((sigma**2).sum(), np.finfo(float).tiny)
        enough = min(int((share < 0.9 - 1e-12).sum()) + 1, len(sigma))
        sentences.append(
            f"{name}: {counted(len(sigma), 'value')} from {sigma[0]:.3g} to {sigma[-1]:.3g}; "
            f"90% of the sum of squares lie in the first {enough}."
        )
    axes.set_yscale("log")
    axes.set_xlabel("rank")
    axes.set_ylabel("singular value")
    axes.legend()
    describe(axes, f"Line chart of singular values. {' '.join(sentences)}")
    return axes


def _line(number: int) -> dict[str, Any]:
    """Give each line a color, and another dash once the colors are used up."""
    turn, color = divmod(number, len(PALETTE))
    return {"color": PALETTE[color], "linestyle": _DASHES[turn % len(_DASHES)]}


def _require_some(lines: Mapping[str, Any]) -> None:
    if not isinstance(lines, Mapping) or not lines:
        got = "none" if isinstance(lines, Mapping) else type(lines).__name__
        raise ValueError(f"expected at least one line by name, got {got}; pass {{name: numbers}}")
