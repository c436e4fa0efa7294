"""FlashAttention-2 in Triton: the method of ``tiled.py``, with each tile in the fast memory of a GPU.

A kernel is a program that the GPU runs many times side by side; ``tl.program_id`` says which run this is.
Each run here owns one block of queries (or of keys). It loads the block once from the GPU's large, slow
memory into the small, fast one (SRAM) beside the arithmetic units, goes over the blocks of the other side,
and writes its result once. No score and no weight ever reaches the slow memory.

The allowed pairs are a band along the diagonal: a query at position p sees keys p - behind ... p + ahead.
Causal attention has ahead = 0, a window w has behind = w - 1; otherwise the band is as wide as the matrix.
Query i has position i + T_k - T_q: the queries are the last of the keys. The caller cuts off what the band
leaves unused, so that here every query sees a key and every key is seen.

Names in capitals are numbers that are known when a kernel is compiled. Tiles have sides that are powers of
two; entries beyond the tensor are loaded as zero and never stored. Products take their factors in the
type of the inputs and add up in float32; all else is float32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

try:
    import triton.language as tl
    from triton import jit
    from triton.language import constexpr
except ImportError:  # this file can be read without Triton, not run: triton.py says so

    def jit(kernel: Any) -> Any:
        return kernel

    constexpr = float

# The GPU computes 2^x, not e^x, so the scale that kernels are given includes log2 e: 2^(s log2 e) = e^s.
LOG2_E = constexpr(1.4426950408889634)
LN_2 = constexpr(0.6931471805599453)


class Heads(NamedTuple):
    """A tensor (B, H, T, d), T = length and d = width, and how far apart its entries are along each axis."""

    start: Any  # the tensor; inside a kernel, the address of its first entry
    batch: int
    head: int
    row: int
    column: int
    length: int
    width: int


@jit
def forward_kernel(
    q: Heads,
    k: Heads,
    v: Heads,
    output: Heads,
    lse: Heads,
    groups: int,
    behind: int,
    ahead: int,
    scale: float,
    WIDE_K: tl.constexpr,
    WIDE_V: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
) -> None:
    """Attend from one block of queries: keep a running maximum, sum and output over the blocks of keys."""
    first_q, head, batch = tl.program_id(0) * BLOCK_Q, tl.program_id(1), tl.program_id(2)
    offset = k.length - q.length
    rows = first_q + tl.arange(0, BLOCK_Q)
    q_tile = load(q, batch, head, first_q, BLOCK_Q, WIDE_K)
    peak = tl.full((BLOCK_Q,), float("-inf"), tl.float32)  # one number for each query
    total = tl.zeros((BLOCK_Q,), tl.float32)
    so_far = tl.zeros((BLOCK_Q, WIDE_V), tl.float32)  # output so far, not divided by total yet

    bounds = spans(first_q + offset, BLOCK_Q, behind, ahead, k.length, BLOCK_K)
    for part in tl.static_range(3):
        for first_k in range(bounds[part], bounds[part + 1], BLOCK_K):
            k_tile = load(k, batch, head // groups, first_k, BLOCK_K, WIDE_K)
            scores = tl.dot(q_tile, k_tile.T, input_precision="ieee") * scale
            if part != 1:
                cols = first_k + tl.arange(0, BLOCK_K)
                distance = rows[:, None] + offset - cols[None, :]
                allowed = (distance <= behind) & (distance >= -ahead) & (cols < k.length)[None, :]
                scores = tl.where(allowed, scores, float("-inf"))
            new_peak = tl.maximum(peak, tl.max(scores, 1))
            finite_peak = tl.where(new_peak == float("-inf"), 0.0, new_peak)  # no key seen so far
            weights = tl.exp2(scores - finite_peak[:, None])
            shrink = tl.exp2(peak - finite_peak)  # the sums under the old maximum are too large
            v_tile = load(v, batch, head // groups, first_k, BLOCK_K, WIDE_V)
            so_far *= shrink[:, None]
            so_far = tl.dot(weights.to(v_tile.dtype), v_tile, so_far, input_precision="ieee")
            total = total * shrink + tl.sum(weights, 1)
            peak = new_peak

    store(output, so_far / total[:, None], batch, head, first_q, BLOCK_Q, WIDE_V)
    store_column(lse, (peak + tl.log2(total)) * LN_2, batch, head, first_q, BLOCK_Q)


@jit
def dq_kernel(
    q: Heads,
    k: Heads,
    v: Heads,
    output: Heads,
    lse: Heads,
    d_output: Heads,
    d_lse: Heads,
    dq: Heads,
    row_sum: Heads,
    groups: int,
    behind: int,
    ahead: int,
    scale: float,
    WIDE_K: tl.constexpr,
    WIDE_V: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
) -> None:
    """Work out the gradient of one block of queries, and the sums over keys for ``dk_dv_kernel``."""
    first_q, head, batch = tl.program_id(0) * BLOCK_Q, tl.program_id(1), tl.program_id(2)
    offset = k.length - q.length
    rows = first_q + tl.arange(0, BLOCK_Q)
    q_tile = load(q, batch, head, first_q, BLOCK_Q, WIDE_K)
    out = load(output, batch, head, first_q, BLOCK_Q, WIDE_V)
    d_out = load(d_output, batch, head, first_q, BLOCK_Q, WIDE_V)
    row_lse = load_column(lse, batch, head, first_q, BLOCK_Q) * LOG2_E
    # Softmax's Jacobian gives dS = P * (dP - sum_j P dP), and that sum over keys is dO . O.
    sums = tl.sum(d_out.to(tl.float32) * out.to(tl.float32), 1)  # (BLOCK_Q,)
    sums -= load_column(d_lse, batch, head, first_q, BLOCK_Q)
    store_column(row_sum, sums, batch, head, first_q, BLOCK_Q)
    gradient = tl.zeros((BLOCK_Q, WIDE_K), tl.float32)

    bounds = spans(first_q + offset, BLOCK_Q, behind, ahead, k.length, BLOCK_K)
    for part in tl.static_range(3):
        for first_k in range(bounds[part], bounds[part + 1], BLOCK_K):
            k_tile = load(k, batch, head // groups, first_k, BLOCK_K, WIDE_K)
            v_tile = load(v, batch, head // groups, first_k, BLOCK_K, WIDE_V)
            scores = tl.dot(q_tile, k_tile.T, input_precision="ieee") * scale
            if part != 1:
                cols = first_k + tl.arange(0, BLOCK_K)
                distance = rows[:, None] + offset - cols[None, :]
                allowed = (distance <= behind) & (distance >= -ahead) & (cols < k.length)[None, :]
                scores = tl.where(allowed, scores, float("-inf"))
            weights = tl.exp2(scores - row_lse[:, None])
            d_weights = tl.dot(d_out, v_tile.T, input_precision="ieee")
            d_scores = weights * (d_weights - sums[:, None])
            gradient = tl.dot(d_scores.to(k_tile.dtype), k_tile, gradient, input_precision="ieee")

    store(dq, gradient * (scale * LN_2), batch, head, first_q, BLOCK_Q, WIDE_K)


@jit
def dk_dv_kernel(
    q: Heads,
    k: Heads,
    v: Heads,
    lse: Heads,
    d_output: Heads,
    row_sum: Heads,
    dk: Heads,
    dv: Heads,
    groups: int,
    behind: int,
    ahead: int,
    scale: float,
    WIDE_K: tl.constexpr,
    WIDE_V: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
) -> None:
    """Work out the gradients of one block of keys and values, added up over the heads that share them.

    Tiles of scores are transposed here, keys by queries, so that they enter the products as they are.
    """
    first_k, kv_head, batch = tl.program_id(0) * BLOCK_K, tl.program_id(1), tl.program_id(2)
    offset = k.length - q.length
    cols = first_k + tl.arange(0, BLOCK_K)
    k_tile = load(k, batch, kv_head, first_k, BLOCK_K, WIDE_K)
    v_tile = load(v, batch, kv_head, first_k, BLOCK_K, WIDE_V)
    k_gradient = tl.zeros((BLOCK_K, WIDE_K), tl.float32)
    v_gradient = tl.zeros((BLOCK_K, WIDE_V), tl.float32)

    # Seen from the keys the band is mirrored: a key at position p is seen from p - ahead ... p + behind.
    # Queries beyond the last need no mask: they are loaded as zeros, dO too, and add nothing.
    bounds = spans(first_k - offset, BLOCK_K, ahead, behind, q.length, BLOCK_Q)
    for head in range(kv_head * groups, (kv_head + 1) * groups):
        for part in tl.static_range(3):
            for first_q in range(bounds[part], bounds[part + 1], BLOCK_Q):
                q_tile = load(q, batch, head, first_q, BLOCK_Q, WIDE_K)
                d_out = load(d_output, batch, head, first_q, BLOCK_Q, WIDE_V)
                row_lse = load_column(lse, batch, head, first_q, BLOCK_Q) * LOG2_E
                sums = load_column(row_sum, batch, head, first_q, BLOCK_Q)
                scores = tl.dot(k_tile, q_tile.T, input_precision="ieee") * scale  # (BLOCK_K, BLOCK_Q)
                if part != 1:
                    rows = first_q + tl.arange(0, BLOCK_Q)
                    distance = rows[None, :] + offset - cols[:, None]
                    allowed = (distance <= behind) & (distance >= -ahead)
                    scores = tl.where(allowed, scores, float("-inf"))
                weights = tl.exp2(scores - row_lse[None, :])
                v_gradient = tl.dot(weights.to(d_out.dtype), d_out, v_gradient, input_precision="ieee")
                d_weights = tl.dot(v_tile, d_out.T, input_precision="ieee")
                d_scores = weights * (d_weights - sums[None, :])
                k_gradient = tl.dot(d_scores.to(q_tile.dtype), q_tile, k_gradient, input_precision="ieee")

    store(dk, k_gradient * (scale * LN_2), batch, kv_head, first_k, BLOCK_K, WIDE_K)
    store(dv, v_gradient, batch, kv_head, first_k, BLOCK_K, WIDE_V)


@jit
def spans(
    first: int, ROWS: tl.constexpr, behind: int, ahead: int, length: int, BLOCK: tl.constexpr
) -> tuple[int, int, int, int]:
    """Bound the keys that the rows at positions first ... first + ROWS - 1 see: an edge, the middle, an edge.

    Every row sees all of the middle, so that only the edges need a mask. Whole blocks outside are skipped.
    """
    last = first + ROWS - 1
    start = tl.maximum(first - behind, 0) // BLOCK * BLOCK
    stop = tl.maximum(tl.minimum(last + ahead + 1, length), start)
    middle = tl.minimum(tl.cdiv(tl.maximum(last - behind, 0), BLOCK) * BLOCK, stop)
    middle_stop = tl.maximum(tl.minimum(first + ahead + 1, length), 0) // BLOCK * BLOCK
    return start, middle, tl.maximum(middle_stop, middle), stop


@jit
def load(x: Heads, batch: int, head: int, first: int, ROWS: tl.constexpr, WIDE: tl.constexpr) -> tl.tensor:
    """Load a tile, ROWS x WIDE, of one head from row ``first`` on."""
    rows, cols = tl.arange(0, ROWS)[:, None], tl.arange(0, WIDE)[None, :]
    inside = (first + rows < x.length) & (cols < x.width)
    return tl.load(row_start(x, batch, head, first) + rows * x.row + cols * x.column, inside, other=0.0)


@jit
def store(
    x: Heads, tile: tl.tensor, batch: int, head: int, first: int, ROWS: tl.constexpr, WIDE: tl.constexpr
) -> None:
    """Store a tile where ``load`` finds one, in the type of ``x``."""
    rows, cols = tl.arange(0, ROWS)[:, None], tl.arange(0, WIDE)[None, :]
    inside = (first + rows < x.length) & (cols < x.width)
    start = row_start(x, batch, head, first)
    tl.store(start + rows * x.row + cols * x.column, tile.to(x.start.dtype.element_ty), inside)


@jit
def load_column(x: Heads, batch: int, head: int, first: int, ROWS: tl.constexpr) -> tl.tensor:
    """Load one number for each of ROWS rows of one head."""
    rows = tl.arange(0, ROWS)
    return tl.load(row_start(x, batch, head, first) + rows * x.row, first + rows < x.length, other=0.0)


@jit
def store_column(x: Heads, column: tl.tensor, batch: int, head: int, first: int, ROWS: tl.constexpr) -> None:
    """Store one number for each of ROWS rows of one head."""
    rows = tl.arange(0, ROWS)
    tl.store(row_start(x, batch, head, first) + rows * x.row, column, first + rows < x.length)


@jit
def row_start(x: Heads, batch: int, head: int, row: int) -> tl.tensor:
    """Point to a row, in 64 bits: a tensor may have more than 2^31 entries."""
    before = tl.cast(batch, tl.int64) * x.batch + tl.cast(head, tl.int64) * x.head
    return x.start + before + tl.cast(row, tl.int64) * x.row
