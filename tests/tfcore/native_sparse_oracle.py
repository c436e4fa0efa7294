"""Native sparse attention by its paper, one query and one head at a time, in numpy."""

from __future__ import annotations

import math

import numpy as np

from tfcore.layers import NativeSparseAttention

Array = np.ndarray


def attend(q: Array, keys: list[Array], values: list[Array]) -> tuple[Array, Array]:
    """Attend with one query, and return the weights too; without a key the output is 0."""
    if not keys:
        return np.zeros_like(q), np.zeros(0)
    scores = np.array([q @ k for k in keys]) / math.sqrt(len(q))
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    return weights @ np.array(values), weights


def compressed(network: dict[str, Array], vectors: Array) -> Array:
    """Compress one block of vectors into one: places, a hidden layer with GELU, a linear layer."""
    flat = (vectors + network["places"]).reshape(-1)
    hidden = network["mlp.0.weight"] @ flat + network["mlp.0.bias"]
    hidden = hidden * 0.5 * (1 + np.array([math.erf(h / math.sqrt(2)) for h in hidden]))
    return network["mlp.2.weight"] @ hidden


def block_score(weights: Array, j: int, length: int, stride: int, size: int) -> float:
    """Add the weights of the compressed blocks, once for each token that they have in block j (from 0)."""
    total = 0.0
    for i, weight in enumerate(weights):
        for token in range(i * stride, i * stride + length):
            total += weight * (token // size == j)
    return total


def paper_score(weights: Array, j: int, length: int, stride: int, size: int) -> float:
    """Equation 9 of the paper, whose blocks are counted from 1; j counts from 0 here."""
    total = 0.0
    for m in range(size // stride):
        for n in range(length // stride):
            i = (size // stride) * (j + 1) - m - n
            total += weights[i - 1] if 1 <= i <= len(weights) else 0.0
    return total


def native_sparse_oracle(layer: NativeSparseAttention, x: Array, score=block_score) -> tuple[Array, Array]:
    """Return the output for one text, (T, d_model), and the selected blocks, (G, T, N)."""
    c = layer.config
    w = {name: p.detach().double().numpy() for name, p in layer.named_parameters()}
    nets = [
        {n.split(".", 1)[1]: p for n, p in w.items() if n.startswith(s)} for s in ("compress_k", "compress_v")
    ]
    T, N, per_group = len(x), math.ceil(len(x) / c.select_block), c.num_heads // c.num_kv_heads
    queries = (x @ w["W_q.weight"].T).reshape(T, c.num_heads, c.d_head)
    made = (x @ w["W_kv.weight"].T).reshape(T, 3, 2, c.num_kv_heads, c.d_head)  # branch, keys or values
    gates = 1 / (1 + np.exp(-(x @ w["W_gate.weight"].T + w["W_gate.bias"])))
    gates = gates.reshape(T, 3, c.num_heads)
    heads, chosen = np.zeros((T, c.num_heads, c.d_head)), np.zeros((c.num_kv_heads, T, N), bool)
    for t in range(T):
        for g in range(c.num_kv_heads):
            of_group = range(g * per_group, (g + 1) * per_group)
            (K_1, V_1), (K_2, V_2), (K_3, V_3) = made[:, :, :, g].transpose(1, 2, 0, 3)
            starts = [s for s in range(0, T, c.compress_stride) if s + c.compress_block <= t + 1]
            k = [compressed(nets[0], K_1[s : s + c.compress_block]) for s in starts]
            v = [compressed(nets[1], V_1[s : s + c.compress_block]) for s in starts]
            coarse = [attend(queries[t, h], k, v) for h in of_group]
            total = sum(weights for _, weights in coarse)
            own = t // c.select_block
            fixed = {j for j in range(own + 1) if j < c.num_first or j > own - c.num_local}
            rest = sorted(
                set(range(own + 1)) - fixed,
                key=lambda j: -score(total, j, c.compress_block, c.compress_stride, c.select_block),
            )
            blocks = fixed | set(rest[: c.num_selected - len(fixed)])
            chosen[g, t, list(blocks)] = True
            whole = [s for s in range(t + 1) if s // c.select_block in blocks]
            near = range(max(0, t - c.window + 1), t + 1)
            for h, (by_blocks, _) in zip(of_group, coarse, strict=True):
                outputs = (
                    by_blocks,
                    attend(queries[t, h], [K_2[s] for s in whole], [V_2[s] for s in whole])[0],
                    attend(queries[t, h], [K_3[s] for s in near], [V_3[s] for s in near])[0],
                )
                heads[t, h] = sum(gate * output for gate, output in zip(gates[t, :, h], outputs, strict=True))
    return heads.reshape(T, -1) @ w["W_o.weight"].T, chosen
