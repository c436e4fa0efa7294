"""Native sparse attention: compressed blocks, the blocks that they select, and a window, mixed by gates."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tfcore.attention import attention
from tfcore.cache import KeysAndValues
from tfcore.config import NativeSparseConfig
from tfcore.layers.heads import merge_heads, split_heads
from tfcore.layers.indexer import top_keys_mask
from tfcore.positions import Order


class NativeSparseAttention(nn.Module):
    r"""Attend to few keys in three branches, and add the three outputs, each weighed by a gate.

    $o_t = \sum_b g_t^b \operatorname{Attention}(q_t, K_t^b, V_t^b)$, $g_t^b = \sigma(W_b x_t + \beta_b)$,
    with one gate for each head and each branch b:

    - *compressed*: one key and one value for each block of ``compress_block`` tokens, of all blocks that end
      at the query or before it. A query with no such block yet gets 0 from this branch;
    - *selected*: all tokens of ``num_selected`` blocks, chosen by the weights of the compressed branch;
    - *window*: the query's token and the ``window`` - 1 tokens before it.

    The branches share the queries. Each branch has keys and values of its own. All query heads of a group
    select the same blocks, so that a block is read once for all of them. The choice has no gradient. It is
    learned because the weights that choose also make the output of the compressed branch.

    Shapes: H query heads, G groups of them, T tokens, T_c compressed blocks, N blocks to select from.

    Args:
        config: the widths and the blocks.

    From: Yuan et al. (2025), *Native Sparse Attention: Hardware-Aligned and Natively Trainable Sparse
    Attention*, section 3. Simpler here: a gate is one matrix and a sigmoid (the paper has an MLP). The MLP
    that compresses a block has one hidden layer of 2 d_head units, a size of our choice. The equations of the
    paper have no rotation; ``order`` rotates the selected branch and the window, never the compressed branch,
    whose keys are made of several positions.

    The code is written to be read, without a cache or a kernel. The compressed branch and the scores of the
    blocks are quadratic in T, and the selected branch copies the keys that each query reads. By
    ``OperationCounter``, with width 32, 2 heads that share a key head, and the paper's blocks, the layer does
    2.4 times the operations of full attention at 512 tokens, 1.3 times at 2,048 and 0.7 times at 4,096.

    >>> config = NativeSparseConfig(24, 4, 2, 6, 4, 2, select_block=4, num_selected=3, window=5)
    >>> layer = NativeSparseAttention(config)
    >>> print(layer(torch.randn(2, 19, 24)).shape)
    torch.Size([2, 19, 24])
    """

    def __init__(self, config: NativeSparseConfig) -> None:
        super().__init__()
        c = self.config = config
        self.W_q = nn.Linear(c.d_model, c.num_heads * c.d_head, bias=False)
        self.W_kv = nn.Linear(c.d_model, 6 * c.num_kv_heads * c.d_head, bias=False)  # of all three branches
        sizes = c.compress_block, c.compress_stride, c.d_head
        self.compress_k, self.compress_v = Compressor(*sizes), Compressor(*sizes)
        self.W_gate = nn.Linear(c.d_model, 3 * c.num_heads)
        self.W_o = nn.Linear(c.num_heads * c.d_head, c.d_model, bias=False)

    def forward(
        self, x: Float[Tensor, "B T d_model"], order: Order | None = None
    ) -> Float[Tensor, "B T d_model"]:
        """Attend from each token to itself and to tokens before it.

        Args:
            x: the tokens, (B, T, d_model).
            order: the rotation of the tokens, for the selected branch and the window.

        Returns:
            (B, T, d_model).
        """
        c = self.config
        q, compressed, selected, window = self._heads(x)
        out_compressed, chosen = self._compressed(q, *compressed)  # before the rotation
        if order is not None and order.rotation is not None:
            q = order.rotation(q)
            selected, window = ((order.rotation(k), v) for k, v in (selected, window))
        out_selected = attend_to_blocks(q, *selected, chosen, c.select_block, c.num_selected)
        # Tiles outside the window are skipped.
        out_window = attention(q, *window, causal=True, window=c.window, backend="tiled")
        gates = self.W_gate(x).sigmoid().unflatten(-1, (3, c.num_heads))  # (B, T, 3, H)
        gates = gates.permute(2, 0, 3, 1).unsqueeze(-1)  # (3, B, H, T, 1)
        mixed = (gates * torch.stack([out_compressed, out_selected, out_window])).sum(0)  # (B, H, T, d_head)
        return self.W_o(merge_heads(mixed))

    def selected_blocks(self, x: Float[Tensor, "B T d_model"]) -> Bool[Tensor, "B G T N"]:
        """Find the blocks that each query selects, for each group of query heads.

        Args:
            x: the tokens, (B, T, d_model).

        Returns:
            True for a selected block, (B, G, T, N); the last block may have fewer tokens.
        """
        q, compressed, _, _ = self._heads(x)
        return self._compressed(q, *compressed)[1]

    def _heads(self, x: Tensor) -> tuple[Tensor, KeysAndValues, KeysAndValues, KeysAndValues]:
        """Project to queries, (B, H, T, d_head), and to each branch's keys and values, (B, G, T, d_head)."""
        c = self.config
        k_1, v_1, k_2, v_2, k_3, v_3 = split_heads(self.W_kv(x), 6 * c.num_kv_heads).chunk(6, dim=1)
        return split_heads(self.W_q(x), c.num_heads), (k_1, v_1), (k_2, v_2), (k_3, v_3)

    def _compressed(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output, (B, H, T, d_head), and the blocks that its weights select, (B, G, T, N)."""
        c, length = self.config, q.shape[2]
        mask = compressed_mask(length, c.compress_block, c.compress_stride, q.device)  # (T, T_c)
        k, v = self.compress_k(k), self.compress_v(v)  # (B, G, T_c, d_head)
        output, weights = attention(q, k, v, mask=mask, return_weights=True)
        by_group = weights.detach().unflatten(1, (c.num_kv_heads, -1)).sum(2)  # (B, G, T, T_c)
        return output, select_blocks(score_blocks(by_group, c, math.ceil(length / c.select_block)), c)


class Compressor(nn.Module):
    r"""Compress each block of vectors into one vector.

    $\tilde k_i = \varphi(k_{ir} + e_0, \; \dots, \; k_{ir+B_c-1} + e_{B_c-1})$, where $\varphi$ is a network
    with one hidden layer and $e_m$ is a learned vector for place m of a block. All heads share both.

    Args:
        block: number of vectors in a block, $B_c$.
        stride: number of vectors from the start of one block to the start of the next, r.
        d_head: width of a vector.

    From: Yuan et al. (2025), *Native Sparse Attention*, equation 7.

    >>> print(Compressor(block=4, stride=2, d_head=6)(torch.randn(2, 3, 11, 6)).shape)
    torch.Size([2, 3, 4, 6])
    """

    def __init__(self, block: int, stride: int, d_head: int) -> None:
        super().__init__()
        self.block, self.stride = block, stride
        self.places = nn.Parameter(nn.init.normal_(torch.empty(block, d_head), std=0.02))
        self.mlp = nn.Sequential(
            nn.Linear(block * d_head, 2 * d_head), nn.GELU(), nn.Linear(2 * d_head, d_head, bias=False)
        )

    def forward(self, x: Float[Tensor, "B G T d_head"]) -> Float[Tensor, "B G T_c d_head"]:
        """Compress all complete blocks; a text shorter than a block is filled up with zeros."""
        x = F.pad(x, (0, 0, 0, max(0, self.block - x.shape[2])))
        blocks = x.unfold(2, self.block, self.stride).mT  # (B, G, T_c, block, d_head)
        return self.mlp((blocks + self.places).flatten(-2))


def compressed_mask(
    length: int, block: int, stride: int, device: torch.device | str | None = None
) -> Bool[Tensor, "T T_c"]:
    r"""Let each query see the compressed blocks that end at it or before it.

    $\text{mask}_{ti} = [\, i r + B_c - 1 \le t \,]$: a block that is not complete would show later tokens.

    Args:
        length: number of queries, T.
        block: tokens in a block, $B_c$.
        stride: tokens from the start of one block to the start of the next, r.
        device: of the mask.

    Returns:
        The mask, (T, T_c); T_c is the number of complete blocks, and 1 if there is none.

    From: Yuan et al. (2025), *Native Sparse Attention*, equation 7.

    >>> print(compressed_mask(5, block=3, stride=2).int().T)
    tensor([[0, 0, 1, 1, 1],
            [0, 0, 0, 0, 1]], dtype=torch.int32)
    """
    ends = torch.arange(block - 1, max(length, block), stride, device=device)  # (T_c,)
    return ends <= torch.arange(length, device=device).unsqueeze(-1)


def score_blocks(
    weights: Float[Tensor, "*batch T T_c"], config: NativeSparseConfig, num_blocks: int
) -> Float[Tensor, "*batch T N"]:
    r"""Score the blocks that can be selected by the weights of the compressed blocks that overlap them.

    $s_{tj} = \sum_i p_{ti} \, n_{ij}$, where $n_{ij}$ is the number of tokens that compressed block i shares
    with selectable block j. If r divides $B_c$ and $B_s$, it is r times the double sum of the paper.

    Args:
        weights: of each compressed block for each query, $p_{ti}$, (..., T, T_c).
        config: the sizes of the blocks.
        num_blocks: number of blocks to select from, N.

    Returns:
        The scores, (..., T, N).

    From: Yuan et al. (2025), *Native Sparse Attention*, equation 9, whose blocks are counted from 1. Only the
    compressed blocks that overlap a selectable block are read, at most $\lceil (B_c + B_s) / r \rceil$.

    >>> config = NativeSparseConfig(8, 1, 1, 8, compress_block=4, compress_stride=2, select_block=4)
    >>> print(score_blocks(torch.tensor([[0.1, 0.2, 0.6, 0.1]]), config, 3))
    tensor([[0.8000, 3.0000, 0.2000]])
    """
    size, stride, count = config.compress_block, config.compress_stride, weights.shape[-1]
    block_begin = torch.arange(num_blocks, device=weights.device) * config.select_block  # (N,)
    first = (block_begin - size) // stride + 1  # (N,), the first compressed block that overlaps each
    scores = weights.new_zeros(*weights.shape[:-1], num_blocks)  # (..., T, N)
    for step in range(math.ceil((size + config.select_block) / stride)):
        i = first + step
        last = torch.minimum(i * stride + size, block_begin + config.select_block)
        shared = (last - torch.maximum(i * stride, block_begin)).clamp(min=0)  # (N,)
        exists = (i >= 0) & (i < count)
        scores += shared * exists * weights[..., i.clamp(0, count - 1)]
    return scores


def select_blocks(
    scores: Float[Tensor, "*batch T N"], config: NativeSparseConfig
) -> Bool[Tensor, "*batch T N"]:
    """Select the fixed blocks, which are the first and the nearest, and then the blocks with the best scores.

    Args:
        scores: of each block for each query, (..., T, N).
        config: how many blocks are selected in all, at the start and near the query.

    Returns:
        True for a selected block, (..., T, N); the query's own block may hold tokens after the query.

    From: Yuan et al. (2025), *Native Sparse Attention*, equations 11 and 12.

    >>> config = NativeSparseConfig(8, 1, 1, 8, select_block=2, num_selected=3, num_local=1)
    >>> scores = torch.tensor([0.1, 0.2, 0.5, 0.3, 0.0]).expand(10, 5)
    >>> print(select_blocks(scores, config)[-1].int())
    tensor([1, 0, 1, 0, 1], dtype=torch.int32)
    """
    block = torch.arange(scores.shape[-1], device=scores.device)  # (N,)
    own = torch.arange(scores.shape[-2], device=scores.device).unsqueeze(-1) // config.select_block  # (T, 1)
    # Blocks after the query's own count as fixed here too; the last argument below forbids them.
    fixed = (block < config.num_first) | (own - block < config.num_local)  # (T, N)
    return top_keys_mask(scores.masked_fill(fixed, math.inf), config.num_selected, block <= own)


def attend_to_blocks(
    q: Float[Tensor, "B H T d_head"],
    k: Float[Tensor, "B G T d_head"],
    v: Float[Tensor, "B G T d_head"],
    chosen: Bool[Tensor, "B G T N"],
    block: int,
    count: int,
) -> Float[Tensor, "B H T d_head"]:
    """Attend from each query to all tokens of some blocks, up to the query itself.

    Args:
        q: queries, (B, H, T, d_head).
        k: keys, (B, G, T, d_head); head h reads from head h // (H / G).
        v: values, (B, G, T, d_head).
        chosen: True for the blocks that a query reads, (B, G, T, N), at most ``count`` for each.
        block: tokens in a block.
        count: how many blocks are gathered for each query.

    Returns:
        The output, (B, H, T, d_head).

    From: Yuan et al. (2025), *Native Sparse Attention*, equation 12. As in the paper's kernel, the heads of a
    group are the rows of one small product with the keys that they share.

    >>> q, v = torch.zeros(1, 2, 5, 1), torch.arange(5.0).view(1, 1, 5, 1)
    >>> chosen = torch.tensor([True, False, True]).expand(1, 1, 5, 3)
    >>> print(attend_to_blocks(q, v, v, chosen, block=2, count=2)[0, 0, 4])
    tensor([1.6667])
    """
    batch, groups, length, width = k.shape
    query = torch.arange(length, device=q.device).view(-1, 1, 1)
    best = chosen.int().topk(min(count, chosen.shape[-1])).indices.unsqueeze(-1)  # (B, G, T, n, 1)
    places = best * block + torch.arange(block, device=q.device)  # (B, G, T, n, block)
    seen = chosen.unsqueeze(-1).take_along_dim(best, dim=3) & (places <= query)  # (B, G, T, n, block)
    keys_per_query = best.shape[3] * block
    places = places.clamp(max=length - 1).view(batch, groups, -1, 1)  # the last block may be short
    # (B * G * T, 1, n * block, d_head)
    k, v = (x.take_along_dim(places, dim=2).view(-1, 1, keys_per_query, width) for x in (k, v))
    rows = q.unflatten(1, (groups, -1)).transpose(2, 3)  # (B, G, T, H / G, d_head)
    mask = seen.view(-1, 1, 1, keys_per_query)  # (B * G * T, 1, 1, n * block)
    output = attention(rows.flatten(0, 2).unsqueeze(1), k, v, mask=mask)
    return output.view(rows.shape).transpose(2, 3).flatten(1, 2)  # (B, H, T, d_head)
