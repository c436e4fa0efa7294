"""Trees of guesses: where one guess is rejected, another guess for the same place may be accepted.

A node is a guess of the token after its parent; the text so far is the root. One call of the large model
reads all nodes, if each attends to the text, to its ancestors and to itself.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tfcore.generate.speculative import residual


def accept_tree(
    p_target: Float[Tensor, "n+1 V"],
    p_draft: Float[Tensor, "n V"],
    tokens: Int[Tensor, " n"],
    parents: Int[Tensor, " n"],
    u: Float[Tensor, " n"],
) -> tuple[list[int], Float[Tensor, " V"]]:
    r"""Decide which path of a tree of guesses is accepted, and the distribution of the token after it.

    Begin at the text with $t = p$, the large model's distribution there, and go through the children of the
    node that was accepted last, in the order of their numbers. Child x is accepted if $u < t(x) / q(x)$, and
    its own children come next, with $t = p$ behind it. If it is rejected, the next sibling is judged by the
    residual: $t \leftarrow \max(t - q, 0)$, normalised. When no child is left, the next token has the
    distribution t.

    Each child is judged as in :func:`speculative_accept`: the child, or the draw that replaces it, has
    distribution t. Here the next sibling takes the place of that draw, so every token of the text has
    distribution p. For a chain, ``parents = [-1, 0, 1, ...]``, both functions have the same result.

    The rule needs q as the distribution that a guess was really drawn from, given the siblings before it:

    - *with replacement*: siblings have the same row of ``p_draft``;
    - *without replacement*: the row of a sibling is 0 at the siblings before it, and normalised again;
    - *the likeliest tokens, without a draw*: each row is 1 at its token.

    Args:
        p_target: probabilities p of the large model after the text (row 0) and after node i (row i + 1),
            (n + 1, V).
        p_draft: probabilities q that each node's token was drawn with, (n, V).
        tokens: the token of each node, (n,).
        parents: the number of each node's parent, (n,), smaller than its own; -1 for the text.
        u: uniform on [0, 1), one for each node, (n,); only those of nodes that are judged matter.

    Returns:
        The numbers of the accepted nodes from the first to the last, and the distribution of the next token,
        (V,).

    Raises:
        ValueError: shapes that do not fit, or a parent that does not come before its child.

    From: Miao et al. (2024), *SpecInfer* (trees); Yang et al. (2024), *Multi-Candidate Speculative Decoding*,
    and Jeon et al. (2024), *Recursive Speculative Decoding* (siblings with and without replacement).

    >>> p = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.2, 0.6], [0.9, 0.1, 0.0]])
    >>> q = torch.tensor([[0.8, 0.1, 0.1], [0.0, 0.5, 0.5]])
    >>> tokens, parents = torch.tensor([0, 1]), torch.tensor([-1, -1])  # two guesses for one place
    >>> print(accept_tree(p, q, tokens, parents, u=torch.tensor([0.6, 0.9])))
    ([0], tensor([0.2000, 0.2000, 0.6000]))
    >>> print(accept_tree(p, q, tokens, parents, u=torch.tensor([0.7, 0.9])))
    ([1], tensor([0.9000, 0.1000, 0.0000]))
    """
    _check_shapes(len(tokens), p_target, p_draft, parents, u)
    path: list[int] = []
    here, t = -1, p_target[0]
    for node, parent in enumerate(_checked(parents)):
        if parent != here:
            continue
        token = tokens[node]
        if u[node] * p_draft[node, token] < t[token]:
            path.append(node)
            here, t = node, p_target[node + 1]
        else:
            t = residual(t, p_draft[node])
    return path, t


def tree_mask(parents: Int[Tensor, " n"]) -> Bool[Tensor, "n n"]:
    r"""Let each node of a tree attend to itself and to its ancestors.

    $\text{mask}_{ij} = [\, j = i \text{ or } j \text{ is an ancestor of } i \,]$; a row has as many True
    as its node is deep, the first node after the text being 1 deep.

    Args:
        parents: the number of each node's parent, smaller than its own; -1 for the text.

    Returns:
        The mask between the nodes, (n, n). All nodes attend to the text as well.

    Raises:
        ValueError: a parent that does not come before its child.

    From: Miao et al. (2024), *SpecInfer*; Cai et al. (2024), *Medusa*.

    >>> print(tree_mask(torch.tensor([-1, -1, 0])).int())
    tensor([[1, 0, 0],
            [0, 1, 0],
            [1, 0, 1]], dtype=torch.int32)
    """
    mask = torch.eye(len(parents), dtype=torch.bool, device=parents.device)
    for node, parent in enumerate(_checked(parents)):
        if parent >= 0:
            mask[node] |= mask[parent]
    return mask


def _check_shapes(n: int, p_target: Tensor, p_draft: Tensor, parents: Tensor, u: Tensor) -> None:
    shapes = [tuple(x.shape) for x in (p_target, p_draft, parents, u)]
    if shapes != [(n + 1, p_target.shape[-1]), (n, p_target.shape[-1]), (n,), (n,)]:
        raise ValueError(
            f"expected p_target (n + 1, V), p_draft (n, V), parents (n,) and u (n,) for n = {n} nodes, got "
            f"{', '.join(map(str, shapes))}; row 0 of p_target is for the text, row i + 1 for node i"
        )


def _checked(parents: Int[Tensor, " n"]) -> list[int]:
    """Return the parents as a list, in which each comes before its children."""
    numbers: list[int] = parents.tolist()
    for node, parent in enumerate(numbers):
        if not -1 <= parent < node:
            raise ValueError(
                f"expected a parent from -1 to {node - 1} for node {node}, got {parent}; number each node "
                "after its parent, and the text -1"
            )
    return numbers
