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
    r"""Attend to few keys in three ways, and add the three outputs, each weighed by a gate.

    $o_t = \sum_z g_t^z \operatorname{Attention}(q_t, K_t^z, V_t^z)$, $g_t = \sigma(W^g x_t + a)$: each
    head has a gate for each of three branches z.

    - *compressed*: one key and one value for each block of $B_c$ tokens, of all blocks that end at the query
      or before it: the whole text, coarsely. A query with no such block yet gets 0 from this branch;
    - *selected*: all tokens of $n_s$ blocks of $B_s$ tokens, to which the compressed branch's weights point;
    - *window*: the query's token and the w - 1 tokens before it.

    The branches share the queries. Each branch has keys and values of its own. All query heads of a group
    select the same blocks, so that a block is read once for all of them. The choice has no gradient. It is
    learned because the weights that choose also make the output of the compressed branch. In the shapes, G
    is the number of groups, $T_c$ of compressed blocks and N of blocks that can be selected.

    Args:
        config: the widths and the blocks.

    From: Yuan et al. (2025), *Native Sparse Attention: Hardware-Aligned and Natively Trainable Sparse
    Attention*, section 3. Simpler here: a gate is one matrix and a sigmoid (the paper has an MLP). The MLP
    that compresses a block has one hidden layer of 2 d_head units, a size of our choice. The equations of the
    paper have no rotation; ``order`` rotates the selected branch and the window, never the compressed branch.
    This code shows which keys are read, not that it is cheap: there is no cache and no kernel, the selected
    branch copies the keys it reads, the window is a mask over all scores, and blocks are scored by a dense
    product. At 2,048 tokens it does more operations than full attention.

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
        q, compressed, selected, window = self._heads(x)  # q (B, H, T, d_head)
        # before the rotation, which would turn the keys of one block by different angles
        out_compressed, chosen = self._compressed(q, *compressed)  # chosen (B, G, T, N)
        if order is not None and order.rotation is not None:
            q = order.rotation(q)
            selected, window = ((order.rotation(k), v) for k, v in (selected, window))
        out_selected = attend_to_blocks(q, *selected, chosen, c.select_block, c.num_selected)
        out_window = attention(q, *window, causal=True, window=c.window)
        gates = self.W_gate(x).sigmoid().unflatten(-1, (3, c.num_heads))  # (B, T, 3, H)
        gates = gates.permute(2, 0, 3, 1).unsqueeze(-1)  # (3, B, H, T, 1)
        mixed = (gates * torch.stack([out_compressed, out_selected, out_window])).sum(0)  # (B, H, T, d_head)
        return self.W_o(merge_heads(mixed))

    def selected_blocks(self, x: Float[Tensor, "B T d_model"]) -> Bool[Tensor, "B G T N"]:
        """Find the blocks that each query selects, for each group of query heads.

        Args:
            x: the tokens, (B, T, d_model).

        Returns:
            True for a selected block, (B, G, T, N), where N is the number of blocks, the last perhaps short.
        """
        q, compressed, _, _ = self._heads(x)
        return self._compressed(q, *compressed)[1]

    def _heads(self, x: Tensor) -> tuple[Tensor, KeysAndValues, KeysAndValues, KeysAndValues]:
        """Project to queries, (B, H, T, d_head), and to each branch's keys and values, (B, G, T, d_head)."""
        c = self.config
        k_1, v_1, k_2, v_2, k_3, v_3 = split_heads(self.W_kv(x), 6 * c.num_kv_heads).chunk(6, dim=1)
        return split_heads(self.W_q(x), c.num_heads), (k_1, v_1), (k_2, v_2), (k_3, v_3)

    def _compressed(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Attend to compressed blocks, and choose from the weights the blocks that are selected."""
        c, length = self.config, q.shape[2]
        mask = compressed_mask(length, c.compress_block, c.compress_stride, q.device)  # (T, T_c)
        output, weights = attention(q, self.compress_k(k), self.compress_v(v), mask=mask, return_weights=True)
        by_group = weights.detach().unflatten(1, (c.num_kv_heads, -1)).sum(2)  # (B, G, T, T_c)
        overlap = shared_tokens(mask.shape[1], c, math.ceil(length / c.select_block), q.device)  # (T_c, N)
        scores = by_group @ overlap.to(by_group.dtype)  # (B, G, T, N)
        return output, select_blocks(scores, c)


class Compressor(nn.Module):
    r"""Compress each block of vectors into one vector.

    $\tilde k_i = \varphi([k_{ir} + e_0; \; \dots; \; k_{ir+B_c-1} + e_{B_c-1}])$, where $e_j$ is a learned
    vector for place j of a block, and $\varphi$ is a small network that all heads share.

    Args:
        block: number of vectors in a block, $B_c$.
        stride: vectors from the start of one block to the start of the next, r.
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
        """Compress all whole blocks; a text shorter than a block is filled up with zeros."""
        x = F.pad(x, (0, 0, 0, max(0, self.block - x.shape[2])))
        blocks = x.unfold(2, self.block, self.stride).mT  # (B, G, T_c, block, d_head)
        return self.mlp((blocks + self.places).flatten(-2))


def compressed_mask(
    length: int, block: int, stride: int, device: torch.device | str | None = None
) -> Bool[Tensor, "T T_c"]:
    r"""Let each query see the compressed blocks that end at it or before it.

    $\text{mask}_{ti} = [\, i r + B_c - 1 \le t \,]$: a block that is not complete yet would show the future.

    Args:
        length: number of queries, T.
        block: tokens in a block, $B_c$.
        stride: tokens from the start of one block to the start of the next, r.
        device: where the mask lives.

    Returns:
        The mask, (T, T_c); T_c is the number of complete blocks, and 1 if there is none.

    From: Yuan et al. (2025), *Native Sparse Attention*, equation 7.

    >>> print(compressed_mask(5, block=3, stride=2).int().T)
    tensor([[0, 0, 1, 1, 1],
            [0, 0, 0, 0, 1]], dtype=torch.int32)
    """
    ends = torch.arange(block - 1, max(length, block), stride, device=device)  # (T_c,)
    return ends <= torch.arange(length, device=device).unsqueeze(-1)


def shared_tokens(
    num_compressed: int, config: NativeSparseConfig, num_blocks: int, device: torch.device | str | None = None
) -> Float[Tensor, "T_c N"]:
    r"""Count the tokens that each compressed block shares with each block that can be selected.

    $n_{ij} = |\, [ir, \, ir + B_c) \cap [jB_s, \, (j + 1)B_s) \,|$. The score of block j is the sum over i of
    the weight of compressed block i times $n_{ij}$. If r divides $B_c$ and $B_s$, it is r times the double
    sum of the paper, whose blocks are counted from 1.

    Args:
        num_compressed: number of compressed blocks, T_c.
        config: the sizes of the blocks.
        num_blocks: number of blocks that can be selected, N.
        device: where the counts live.

    Returns:
        The counts, (T_c, N).

    From: Yuan et al. (2025), *Native Sparse Attention*, equation 9.

    >>> print(shared_tokens(4, NativeSparseConfig(8, 1, 1, 8, 4, 2, select_block=4), 3).int())
    tensor([[4, 0, 0],
            [2, 2, 0],
            [0, 4, 0],
            [0, 2, 2]], dtype=torch.int32)
    """
    begin = torch.arange(num_compressed, device=device).unsqueeze(-1) * config.compress_stride  # (T_c, 1)
    block_begin = torch.arange(num_blocks, device=device) * config.select_block  # (N,)
    last = torch.minimum(begin + config.compress_block, block_begin + config.select_block)
    return (last - torch.maximum(begin, block_begin)).clamp(min=0).float()


def select_blocks(
    scores: Float[Tensor, "*batch T N"], config: NativeSparseConfig
) -> Bool[Tensor, "*batch T N"]:
    """Select the first blocks, the query's own and those just before it, then those with the largest scores.

    Args:
        scores: of each block for each query, (..., T, N).
        config: how many blocks in all, at the start and near the query.

    Returns:
        True for a selected block, (..., T, N); the query's own block may hold tokens after the query.

    From: Yuan et al. (2025), *Native Sparse Attention*, equations 11 and 12; the fixed blocks are among the
    settings of its experiments.

    >>> config = NativeSparseConfig(8, 1, 1, 8, select_block=2, num_selected=3, num_local=1)
    >>> scores = torch.tensor([0.1, 0.2, 0.5, 0.3, 0.0]).expand(10, 5)
    >>> print(select_blocks(scores, config)[-1].int())
    tensor([1, 0, 1, 0, 1], dtype=torch.int32)
    """
    block = torch.arange(scores.shape[-1], device=scores.device)  # (N,)
    own = torch.arange(scores.shape[-2], device=scores.device).unsqueeze(-1) // config.select_block  # (T, 1)
    # true of later blocks as well, which block <= own takes out
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
    # each query is a batch entry of its own, with the keys that it reads: (B * G * T, 1, n * block, d_head)
    k, v = (x.take_along_dim(places, dim=2).view(-1, 1, keys_per_query, width) for x in (k, v))
    rows = q.unflatten(1, (groups, -1)).transpose(2, 3)  # (B, G, T, H / G, d_head)
    mask = seen.view(-1, 1, 1, keys_per_query)  # (B * G * T, 1, 1, n * block)
    output = attention(rows.flatten(0, 2).unsqueeze(1), k, v, mask=mask)  # (B * G * T, 1, H / G, d_head)
    return output.view(rows.shape).transpose(2, 3).flatten(1, 2)  # (B, H, T, d_head)
