"""The library functions that are an exercise themselves, in families: who forbids one forbids all its kin."""

from __future__ import annotations

ATTENTION = (
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.scaled_dot_product_attention_math",
    "torch.scaled_dot_product_flash_attention",
    "torch.scaled_dot_product_flash_attention_for_cpu",
    "torch.scaled_dot_product_efficient_attention",
    "torch.native_multi_head_attention",
    "torch.nn.functional.multi_head_attention_forward",
    "torch.nn.MultiheadAttention",
)

SOFTMAX = (
    "scipy.special.softmax",
    "scipy.special.log_softmax",
    "torch.softmax",
    "torch.safe_softmax",
    "torch.log_softmax",
    "torch.nn.functional.softmin",
    "torch.nn.functional.cross_entropy",
    "torch.distributions.*",
    *ATTENTION,
)
"""Also what takes a softmax on its way, so that the identity for values brings it to light.

The logarithm of a sum of exponentials is none: who subtracts it has written softmax in a published form, and
who differentiates it knows what softmax is.
"""

NORMS = (
    *(f"torch.nn.functional.{kind}_norm" for kind in ("batch", "group", "instance", "layer", "rms")),
    *("torch.native_batch_norm", "torch.native_group_norm", "torch.native_layer_norm"),
    "torch.fused_rms_norm",
    "torch.nn.functional.local_response_norm",
)
"""Each makes the others: a vector beside its negative has the mean 0."""

RECURRENT = tuple(
    f"torch.{name}{cell}" for name in ("gru", "lstm", "rnn_relu", "rnn_tanh") for cell in ("", "_cell")
)
"""With gates that are wide open, all are a plain recurrent network."""
