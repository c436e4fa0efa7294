"""Library functions that solve an exercise, in families: an exercise forbids a whole family.

A name with stars matches every function of the package whose name contains the word, such as
``torch._native_batch_norm_legit`` and ``torch.ops.aten.batch_norm_elemt``.
"""

from __future__ import annotations

ATTENTION = ("torch.*attention*", "torch.nn.MultiheadAttention")

SOFTMAX = (
    "scipy.special.softmax",
    "scipy.special.log_softmax",
    "torch.*softmax*",
    "torch.nn.functional.softmin",
    "torch.*cross_entropy*",
    "torch.distributions.*",
    *ATTENTION,
)
"""Softmax, and functions that contain it: with an identity matrix as values they return it.

The logarithm of a sum of exponentials is allowed: subtracting it is a published form of softmax, and a
student who differentiates it knows softmax.
"""

NORMS = (
    *(f"torch.*{kind}_norm*" for kind in ("batch", "group", "instance", "layer", "rms", "weight")),
    *("torch._refs._normalize", "torch.nn.functional.local_response_norm", "torch.*renorm*"),
)
"""Norms. Each norm can compute the others: a vector beside its negative has the mean 0."""

LAYERS = (
    "torch.*multi_head_attention*",
    "torch.*transformer_encoder_layer*",
    "torch.nn.MultiheadAttention",
    *(f"torch.nn.Transformer{part}" for part in ("", "Encoder", "EncoderLayer", "Decoder", "DecoderLayer")),
)
"""Attention with several heads, and layers that contain it. Attention with one head is allowed."""

RECURRENT = ("torch.*rnn*", "torch.*gru*", "torch.*lstm*")
"""Recurrent networks. With open gates, all are a plain recurrent network."""

DERIVATIVES = (
    *(f"torch.autograd.{name}" for name in ("grad", "backward", "forward_ad.make_dual")),
    *(f"torch.func.{name}" for name in ("grad_and_value", "jacrev", "jacfwd", "jvp", "vjp", "linearize")),
    *(f"torch.autograd.functional.{name}" for name in ("jacobian", "hessian", "hvp", "vhp")),
    *("torch.*run_backward*", "torch.*backward_data"),
)
"""Functions that differentiate, for exercises about a derivative."""
