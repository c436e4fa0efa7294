"""How fast hardware can run a model at best: it computes only so fast, and reads only so fast."""

from __future__ import annotations

from dataclasses import dataclass

from tfcore.costs.architecture import Architecture, check_positive
from tfcore.costs.memory import cache_bytes
from tfcore.costs.operations import check_lengths, forward_flops
from tfcore.costs.parameters import parameters_by_part


@dataclass(frozen=True)
class Ceiling:
    """The most that a device does in a second.

    Args:
        flops_per_second: of dense bfloat16 matrix products.
        bytes_per_second: read from or written to its main memory.
        source: key of the bibliography, or "measured".

    Raises:
        ValueError: a number that is not above 0.

    >>> print(round(CEILINGS["H100 SXM"].ridge))
    295
    """

    flops_per_second: float
    bytes_per_second: float
    source: str

    def __post_init__(self) -> None:
        check_positive(
            fractions=True, flops_per_second=self.flops_per_second, bytes_per_second=self.bytes_per_second
        )

    @property
    def ridge(self) -> float:
        """Return the operations per byte at the ridge: below it memory is the limit, above it arithmetic."""
        return self.flops_per_second / self.bytes_per_second


CEILINGS = {
    "A100 80GB SXM": Ceiling(312e12, 2.039e12, "nvidia2021a100"),
    "H100 SXM": Ceiling(989e12, 3.35e12, "nvidia2023h100"),
    "H200 SXM": Ceiling(989e12, 4.8e12, "nvidia2024h200"),
    "H200 SXM, measured": Ceiling(782e12, 4.24e12, "measured"),
}
"""Devices by name. Measured: a large bfloat16 matrix product and a large copy, on one device, in torch."""


def arithmetic_intensity(flops: float, num_bytes: float) -> float:
    """Divide operations by bytes moved, to be compared with a device's ``ridge``.

    Raises:
        ValueError: operations below 0, or bytes that are not above 0.

    From: Williams, Waterman and Patterson (2009), *Roofline: An Insightful Visual Performance Model*.

    >>> arithmetic_intensity(2 * 512**3, 3 * 2 * 512**2)  # one square product of 512, in bfloat16
    170.66666666666666
    """
    check_positive(fractions=True, flops=flops or None, num_bytes=num_bytes)
    return flops / num_bytes


def time_bound(flops: float, num_bytes: float, ceiling: Ceiling) -> float:
    r"""Give the least time that some work can take, in seconds.

    $\max(F / F_{max}, \; M / M_{max})$: arithmetic and memory work at the same time, and the slower decides.

    Args:
        flops: operations, F.
        num_bytes: bytes read and written, M.
        ceiling: the device.

    Returns:
        Seconds.

    Raises:
        ValueError: operations or bytes below 0.

    From: Williams, Waterman and Patterson (2009), *Roofline: An Insightful Visual Performance Model*.

    >>> time_bound(1e12, 1e9, Ceiling(1e12, 1e12, "example"))
    1.0
    """
    check_positive(fractions=True, flops=flops or None, num_bytes=num_bytes or None)
    return max(flops / ceiling.flops_per_second, num_bytes / ceiling.bytes_per_second)


def forward_bytes(
    architecture: Architecture,
    q_len: int,
    k_len: int | None = None,
    batch: int = 1,
    bytes_per_element: int = 2,
) -> int:
    """Count the bytes that a forward pass moves: weights and cache, each read once.

    Of tables, only the rows that are looked up are read; of experts, as many as the tokens can be sent to,
    which is more than they need where they agree. Keys and values of the new tokens are written. Activations
    are taken to stay on the chip.

    Args:
        architecture: a model of one stack.
        q_len: tokens that are read now.
        k_len: tokens that they attend to, cached ones included; ``q_len`` when None.
        batch: number of sequences.
        bytes_per_element: of weights and cache.

    Returns:
        The number of bytes.

    Raises:
        ValueError: a model with an encoder beside its decoder, or lengths that do not fit.

    >>> from tfcore.costs import MODELS
    >>> llama = MODELS["Llama 2 7B"].architecture
    >>> print(f"{forward_bytes(llama, q_len=1, k_len=4096) / 1e9:.1f} GB")
    15.4 GB
    """
    a = architecture
    k_len = q_len if k_len is None else k_len
    check_lengths(q_len, k_len)
    check_positive(batch=batch)
    parts = parameters_by_part(a)
    tokens = batch * q_len
    if a.head != "tied":
        parts["embedding"] = min(tokens, a.vocab_size) * a.d_model
    parts["positions"] = min(parts["positions"], q_len * a.d_model)
    parts["feed-forward"] = parts["feed-forward"] // a.num_experts * min(a.num_experts, tokens * a.top_k)
    cache = cache_bytes(a, k_len, batch, bytes_per_element)
    return sum(parts.values()) * bytes_per_element + cache


def tokens_per_second(
    architecture: Architecture,
    k_len: int,
    ceiling: Ceiling,
    batch: int = 1,
    bytes_per_element: int = 2,
) -> float:
    """Bound how many tokens a device can generate in a second, over all sequences of a batch.

    Args:
        architecture: a model of one stack.
        k_len: tokens that each new token attends to.
        ceiling: the device.
        batch: number of sequences; each gains one token per step.
        bytes_per_element: of weights and cache.

    Returns:
        Tokens per second, at most; with experts, as if no two tokens of the batch shared one.

    From: Pope et al. (2023), *Efficiently Scaling Transformer Inference*.

    >>> from tfcore.costs import MODELS
    >>> gpt2 = MODELS["GPT-2 small"].architecture
    >>> print(f"{tokens_per_second(gpt2, 1024, CEILINGS['H100 SXM']):,.0f}")
    11,752
    """
    flops = forward_flops(architecture, 1, k_len, batch)
    num_bytes = forward_bytes(architecture, 1, k_len, batch, bytes_per_element)
    return batch / time_bound(flops, num_bytes, ceiling)
