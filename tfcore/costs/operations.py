"""The number of floating-point operations of a model: its matrix products, which are nearly all.

An (m, k) by (k, n) product takes m n k multiplications and as many additions: 2 m n k operations. Left out
are norms, softmax, activations, rotations and the choice of experts.
"""

from __future__ import annotations

from tfcore.costs.architecture import Architecture, check_one_stack, check_positive


def attended_pairs(q_len: int, k_len: int, causal: bool = False, window: int | None = None) -> int:
    r"""Count the pairs of query and key in which the query may attend to the key.

    $\sum_i |\{ j : |p_i - j| < w, \; j \le p_i \text{ if causal} \}|$, $p_i$ the last T_q of T_k positions.

    Args:
        q_len: number of queries, T_q.
        k_len: number of keys, T_k.
        causal: leave out the keys that come later.
        window: leave out the keys that are this far away or farther.

    Returns:
        The number of pairs, T_q T_k if nothing is left out.

    Raises:
        ValueError: more queries than keys, or a window below 1.

    >>> causal, sliding = attended_pairs(4, 4, causal=True), attended_pairs(1, 9, True, window=3)
    >>> attended_pairs(4, 4), causal, sliding
    (16, 10, 3)
    """
    check_lengths(q_len, k_len)
    check_positive(window=window)

    def back(n: int) -> int:
        """Count the keys that the first n positions see at or before themselves."""
        limit = n if window is None else min(window, n)
        return limit * (limit + 1) // 2 + (n - limit) * limit

    before = back(k_len) - back(k_len - q_len)
    if causal:
        return before
    after = back(q_len) - q_len  # seen from the end, the keys after the queries are keys before them
    return before + after


def check_lengths(q_len: int, k_len: int) -> None:
    """Refuse no queries, and fewer keys than queries.

    Raises:
        ValueError: one of the two.

    >>> check_lengths(5, 4)
    Traceback (most recent call last):
    ValueError: expected 1 <= q_len <= k_len, got 5 and 4; the keys include those of the queries
    """
    if not 1 <= q_len <= k_len:
        raise ValueError(
            f"expected 1 <= q_len <= k_len, got {q_len} and {k_len}; the keys include those of the queries"
        )


def flops_by_part(
    architecture: Architecture,
    q_len: int,
    k_len: int | None = None,
    batch: int = 1,
    causal: bool = False,
    source_len: int | None = None,
) -> dict[str, int]:
    r"""Count the operations of a forward pass, part by part.

    $2 P$ per token for matrices of P parameters; $4 h \, d_{head}$ per layer and pair for scores and values.

    Args:
        architecture: the model.
        q_len: tokens that are read now.
        k_len: tokens that they attend to, cached ones included; ``q_len`` when None, so that decoding one
            token is ``q_len=1, k_len=...``.
        batch: number of sequences.
        causal: count only the pairs that the causal rule allows. A kernel that computes the whole square and
            masks it does the operations of False.
        source_len: tokens of the source, for a model with an encoder; the encoder's pass is included.

    Returns:
        Operations of "projections" (q, k, v and o), "scores" (queries with keys, weights with values),
        "feed-forward", "router" and "head".

    Raises:
        ValueError: lengths that do not fit, no batch, a source without an encoder, or an encoder without a
            source.

    From: Kaplan et al. (2020), *Scaling Laws for Neural Language Models*, table 1.

    >>> from tfcore.costs import MODELS
    >>> flops_by_part(MODELS["GPT-2 small"].architecture, q_len=1024)["scores"]
    38654705664
    """
    a = architecture
    check_positive(batch=batch, source_len=source_len)
    if bool(a.num_encoder_layers) != (source_len is not None) or (source_len and k_len):
        raise ValueError(
            f"expected a source_len, and no k_len, if and only if there is an encoder, got source_len "
            f"{source_len} and k_len {k_len} for {a.num_encoder_layers} encoder layers; "
            "an encoder-decoder is counted over whole sequences"
        )
    source = source_len or 0
    q_width, kv_width = a.num_heads * a.head_width, a.kv_heads * a.head_width
    per_query, per_key = 2 * 2 * a.d_model * q_width, 2 * 2 * a.d_model * kv_width  # q and o, k and v

    projections = a.num_layers * q_len * (per_query + per_key)
    pairs = a.num_layers * attended_pairs(q_len, q_len if k_len is None else k_len, causal, a.window)
    if source:
        projections += a.num_encoder_layers * source * (per_query + per_key)
        projections += a.num_layers * (q_len * per_query + source * per_key)
        pairs += a.num_encoder_layers * source**2 + a.num_layers * q_len * source
    passes = a.num_layers * q_len + a.num_encoder_layers * source  # of one token through one block
    parts = {
        "projections": projections,
        "scores": pairs * 2 * 2 * q_width,
        "feed-forward": passes * a.top_k * 2 * (3 if a.gated else 2) * a.d_model * a.d_ff,
        "router": passes * 2 * a.d_model * a.num_experts if a.num_experts > 1 else 0,
        "head": 0 if a.head == "none" else q_len * 2 * a.d_model * a.vocab_size,
    }
    return {name: batch * number for name, number in parts.items()}


def forward_flops(
    architecture: Architecture,
    q_len: int,
    k_len: int | None = None,
    batch: int = 1,
    causal: bool = False,
    source_len: int | None = None,
) -> int:
    """Count the operations of a forward pass; see :func:`flops_by_part`.

    >>> from tfcore.costs import MODELS
    >>> print(f"{forward_flops(MODELS['GPT-2 small'].architecture, q_len=1024):.3g}")
    2.92e+11
    """
    return sum(flops_by_part(architecture, q_len, k_len, batch, causal, source_len).values())


def training_flops(
    architecture: Architecture,
    seq_len: int,
    batch: int = 1,
    causal: bool = False,
    source_len: int | None = None,
    recompute: bool = False,
) -> int:
    r"""Count the operations of a forward and a backward pass.

    $3 F$: each product C = A B is followed by two of its size, $dA = dC\,B^\top$ and $dB = A^\top dC$. For
    short sequences that is about $6 P$ per token.

    Args:
        architecture: the model.
        seq_len: tokens of each sequence.
        batch: number of sequences.
        causal: count only the pairs that the causal rule allows.
        source_len: tokens of the source, for a model with an encoder.
        recompute: whether the blocks' activations are not kept but computed a second time.

    Returns:
        Operations of one step.

    From: Kaplan et al. (2020), *Scaling Laws for Neural Language Models*, section 2.1; Chen et al. (2016),
    *Training Deep Nets with Sublinear Memory Cost* (``recompute``).

    >>> from tfcore.costs import MODELS
    >>> gpt2 = MODELS["GPT-2 small"].architecture
    >>> training_flops(gpt2, 1024) == 3 * forward_flops(gpt2, 1024)
    True
    """
    parts = flops_by_part(architecture, seq_len, None, batch, causal, source_len)
    again = sum(parts.values()) - parts["head"] if recompute else 0
    return 3 * sum(parts.values()) + again


def crossover_length(architecture: Architecture, causal: bool = False) -> int | None:
    r"""Find the shortest sequence on which scores and values cost more than all other products together.

    About $6 d$ for blocks of width d with $d_{ff} = 4d$, twice as much if only causal pairs count, and more
    for the head.

    Args:
        architecture: a model of one stack.
        causal: count only the pairs that the causal rule allows.

    Returns:
        The number of tokens; None if a window keeps the scores below the rest for ever.

    Raises:
        ValueError: a model with an encoder beside its decoder.

    From: Kaplan et al. (2020), *Scaling Laws for Neural Language Models*, section 2.1.

    >>> from tfcore.costs import MODELS
    >>> crossover_length(MODELS["GPT-2 small"].architecture)
    6703
    """
    check_one_stack(architecture)

    def passed(length: int) -> bool:
        parts = flops_by_part(architecture, length, causal=causal)
        return parts["scores"] > sum(parts.values()) - parts["scores"]

    upper = 1
    while not passed(upper):
        upper *= 2
        if upper > 2**40:
            return None
    lower = upper // 2
    while upper - lower > 1:
        middle = (lower + upper) // 2
        lower, upper = (lower, middle) if passed(middle) else (middle, upper)
    return upper
