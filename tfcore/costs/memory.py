"""The bytes that a model needs: for its weights, for its cache, and for training."""

from __future__ import annotations

from tfcore.costs.architecture import Architecture, check_one_stack, check_positive
from tfcore.costs.parameters import model_parameters


def kv_cache_bytes(
    num_layers: int,
    num_kv_heads: int,
    d_head: int,
    seq_len: int,
    batch: int = 1,
    bytes_per_element: int = 2,
) -> int:
    r"""Count the bytes of a cache of keys and values.

    $2 \, L \, h_{kv} \, d_{head} \, T \, B$ elements, the 2 for keys and values.

    Args:
        num_layers: layers, each with a cache of its own, L.
        num_kv_heads: heads of keys and values.
        d_head: width of a head.
        seq_len: cached tokens, T.
        batch: number of sequences, B.
        bytes_per_element: 2 for bfloat16, 4 for float32, 1 for int8.

    Returns:
        The number of bytes.

    Raises:
        ValueError: a number below 1 (below 0 tokens), or elements without bytes.

    From: Shazeer (2019), *Fast Transformer Decoding: One Write-Head is All You Need*.

    >>> kv_cache_bytes(num_layers=32, num_kv_heads=8, d_head=128, seq_len=8192)
    1073741824
    """
    check_positive(num_layers=num_layers, num_kv_heads=num_kv_heads, d_head=d_head, batch=batch)
    check_positive(seq_len=seq_len or None)  # a cache may be empty
    check_positive(fractions=True, bytes_per_element=bytes_per_element)
    return 2 * num_layers * num_kv_heads * d_head * seq_len * batch * bytes_per_element


def cache_bytes(architecture: Architecture, seq_len: int, batch: int = 1, bytes_per_element: int = 2) -> int:
    """Count the bytes of a model's cache; with a window, no more tokens than it holds.

    Raises:
        ValueError: a model with an encoder beside its decoder, or numbers as in :func:`kv_cache_bytes`.

    >>> from tfcore.costs import MODELS
    >>> llama, mistral = (MODELS[name].architecture for name in ("Llama 2 7B", "Mistral 7B"))
    >>> # a quarter of the heads, half of the tokens
    >>> cache_bytes(llama, 8192) // cache_bytes(mistral, 8192)
    8
    """
    check_one_stack(architecture)
    a = architecture
    kept = seq_len if a.window is None else min(a.window, seq_len)
    return kv_cache_bytes(a.num_layers, a.kv_heads, a.head_width, kept, batch, bytes_per_element)


def weight_bytes(architecture: Architecture, bytes_per_element: float = 2) -> int:
    """Count the bytes of a model's weights; half a byte per element for 4-bit weights.

    Raises:
        ValueError: elements without bytes.

    >>> from tfcore.costs import MODELS
    >>> print(f"{weight_bytes(MODELS['Llama 3 70B'].architecture) / 1e9:.0f} GB")
    141 GB
    """
    check_positive(fractions=True, bytes_per_element=bytes_per_element)
    return round(model_parameters(architecture) * bytes_per_element)


def training_state_bytes(architecture: Architecture) -> int:
    r"""Count the bytes that Adam in mixed precision keeps for a model, activations apart.

    $16 P$: weights and gradients in 2 bytes each; a copy of the weights and two moments in 4 bytes each.

    From: Rajbhandari et al. (2020), *ZeRO: Memory Optimizations Toward Training Trillion Parameter Models*.

    >>> from tfcore.costs import MODELS
    >>> print(f"{training_state_bytes(MODELS['GPT-2 XL'].architecture) / 1e9:.0f} GB")
    25 GB
    """
    return 16 * model_parameters(architecture)


def activation_bytes(
    architecture: Architecture,
    seq_len: int,
    batch: int = 1,
    bytes_per_element: int = 2,
    store_weights: bool = True,
) -> int:
    r"""Count the bytes that the forward pass keeps for the backward pass, without dropout.

    $4 d + 2 h d_{head} + 2 h_{kv} d_{head} + 2 d_{ff} + h T$ elements per token and layer: the inputs of the
    two norms, of the projections and of the feed-forward network; q, k, v and the heads' output; the input of
    the activation and its output; the attention weights. $4 d_{ff}$ if gated. At the end $2 d$ for the last
    norm and its output, and V for the head's log-softmax.

    Args:
        architecture: a dense model of one stack.
        seq_len: tokens of each sequence, T.
        batch: number of sequences.
        bytes_per_element: 2 for bfloat16.
        store_weights: whether the T x T attention weights are kept. FlashAttention keeps one number for each
            row in their place. That number and the statistics of the norms are not counted here.

    Returns:
        The number of bytes.

    Raises:
        ValueError: a model of two stacks or with experts, no tokens, or elements without bytes.

    From: Korthikanti et al. (2023), *Reducing Activation Recomputation in Large Transformer Models*, whose
    34 sbh + 5 as^2 b is this plus the masks and results of dropout.

    >>> from tfcore.costs import MODELS
    >>> gpt2 = MODELS["GPT-2 small"].architecture
    >>> with_weights = activation_bytes(gpt2, 1024, store_weights=True)
    >>> without = activation_bytes(gpt2, 1024, store_weights=False)
    >>> print(f"{with_weights / 1e6:.0f} MB, {without / 1e6:.0f} MB")
    710 MB, 408 MB
    """
    check_one_stack(architecture)
    check_positive(seq_len=seq_len, batch=batch)
    check_positive(fractions=True, bytes_per_element=bytes_per_element)
    a = architecture
    if a.num_experts > 1:
        raise ValueError(
            f"expected a dense model, got {a.num_experts} experts; what they keep depends on how they are run"
        )
    heads = 2 * a.num_heads * a.head_width + 2 * a.kv_heads * a.head_width
    inner = (4 if a.gated else 2) * a.d_ff
    weights = a.num_heads * seq_len if store_weights else 0
    per_token = a.num_layers * (4 * a.d_model + heads + inner + weights)
    if a.head != "none":
        per_token += 2 * a.d_model + a.vocab_size
    return batch * seq_len * per_token * bytes_per_element
