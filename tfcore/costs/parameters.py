"""How many numbers a model learns."""

from __future__ import annotations

from tfcore.costs.architecture import Architecture, check_heads


def parameter_count(d_model: int, num_heads: int, num_kv_heads: int | None = None, bias: bool = True) -> int:
    r"""Count the parameters of one attention layer.

    $2 d^2 + 2 d \, d_{kv}$ for the matrices of q, o and k, v, with $d_{kv} = h_{kv} \, d / h$; and with
    biases $2 d + 2 d_{kv}$ more. If $h_{kv} = h$, the number of heads makes no difference.

    Args:
        d_model: width of the residual stream, d.
        num_heads: query heads, h.
        num_kv_heads: heads of keys and values; h when None.
        bias: whether the four projections add a bias.

    Returns:
        The number of parameters.

    Raises:
        ValueError: heads that do not divide the width, or key heads that do not divide the heads.

    From: Vaswani et al. (2017), *Attention Is All You Need*; Ainslie et al. (2023), *GQA*.

    >>> parameter_count(512, 8), parameter_count(512, 8, num_kv_heads=2, bias=False)
    (1050624, 655360)
    """
    check_heads(d_model, num_heads, num_kv_heads)
    return _attention(d_model, num_heads, num_kv_heads or num_heads, d_model // num_heads, bias)


def parameters_by_part(architecture: Architecture) -> dict[str, int]:
    r"""Count the parameters of a model, part by part.

    Args:
        architecture: the model.

    Returns:
        The numbers for "embedding", "positions", "attention", "feed-forward", "router", "norms", "head" and
        "other".

    From: the sections on the sizes of models in Vaswani et al. (2017) and Radford et al. (2019).

    >>> from tfcore.costs import MODELS
    >>> parameters_by_part(MODELS["GPT-2 small"].architecture)["attention"]
    28348416
    """
    a = architecture
    blocks = a.num_layers + a.num_encoder_layers
    cross = a.num_layers if a.num_encoder_layers else 0
    num_norms = 2 * blocks + cross + a.extra_norms
    return {
        "embedding": a.vocab_size * a.d_model,
        "positions": a.max_len * a.d_model if a.learned_positions else 0,
        "attention": (blocks + cross) * _attention(a.d_model, a.num_heads, a.kv_heads, a.head_width, a.bias),
        "feed-forward": blocks * a.num_experts * _feed_forward(a),
        "router": blocks * a.d_model * a.num_experts if a.num_experts > 1 else 0,
        "norms": num_norms * a.d_model * (2 if a.norm == "layer" else 1),
        "head": a.vocab_size * a.d_model if a.head == "own" else 0,
        "other": a.other_parameters,
    }


def model_parameters(architecture: Architecture) -> int:
    """Count all parameters of a model.

    >>> from tfcore.costs import MODELS
    >>> model_parameters(MODELS["GPT-2 small"].architecture)
    124439808
    """
    return sum(parameters_by_part(architecture).values())


def active_parameters(architecture: Architecture) -> int:
    """Count the parameters that one token uses: of the experts, only the ones that it is sent to.

    >>> from tfcore.costs import MODELS
    >>> print(f"{active_parameters(MODELS['Mixtral 8x7B'].architecture) / 1e9:.1f}")
    12.9
    """
    a = architecture
    idle = (a.num_layers + a.num_encoder_layers) * (a.num_experts - a.top_k) * _feed_forward(a)
    return model_parameters(a) - idle


def _attention(d_model: int, num_heads: int, num_kv_heads: int, d_head: int, bias: bool) -> int:
    q_width, kv_width = num_heads * d_head, num_kv_heads * d_head
    biases = q_width + 2 * kv_width + d_model if bias else 0
    return 2 * d_model * q_width + 2 * d_model * kv_width + biases


def _feed_forward(a: Architecture) -> int:
    """Count one feed-forward network, or one expert."""
    num_inner = 2 if a.gated else 1
    biases = num_inner * a.d_ff + a.d_model if a.bias else 0
    return (num_inner + 1) * a.d_model * a.d_ff + biases
