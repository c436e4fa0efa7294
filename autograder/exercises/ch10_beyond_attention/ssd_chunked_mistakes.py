"""Mistakes that people make in `ssd_chunked`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

import torch

from autograder.checking.edits import wrong
from autograder.exercises.ch10_beyond_attention.ssd_chunked import EXERCISE
from autograder.exercises.ch10_beyond_attention.ssd_chunked_styles import (
    chunk_by_chunk,
    memories_in_a_loop,
)

edited = partial(wrong, EXERCISE, chunk_by_chunk)

edited(
    "memory_not_carried",
    "Each of your chunks starts with an empty memory. Make H once, before the loop over chunks, and pass "
    "it from chunk to chunk.",
    {"H = total[:, :, -1:].exp() * H + (left": "H = 0 * H + 0 * (left"},
)

edited(
    "carried_memory_not_faded_in_the_output",
    "Inside a chunk, your tokens read the carried memory as it was at the start. Multiply H C by the "
    "decay since the start of the chunk.",
    {"total.exp() * (q @ H.mT)": "q @ H.mT"},
)

edited(
    "carried_memory_not_faded_at_the_end",
    "Your carried memory does not fade from chunk to chunk. At the end of a chunk, multiply H by the "
    "decay of the whole chunk before you add to it.",
    {"H = total[:, :, -1:].exp() * H": "H = H"},
)

edited(
    "inputs_not_faded_at_the_end",
    "Your chunk adds its inputs to the memory at full strength. Each has faded since: multiply it by the "
    "decay from its token to the end of the chunk.",
    {"(left * v).mT": "v.mT"},
)

edited(
    "inputs_faded_from_the_start",
    "Your chunk adds each input with the decay from the start of the chunk to its token. Use the decay "
    "from its token to the end of the chunk.",
    {"(total[:, :, -1:] - total).exp()": "total.exp()"},
)

edited(
    "decay_without_the_token_itself",
    "Your decay since the start of the chunk is off by one: it leaves the token's own decay out. Sum "
    "delta A up to the token itself: cumsum does.",
    {
        "outputs.append(inside + total.exp()": (
            "own = (delta[:, chunk] * A).mT[..., None]\n        outputs.append(inside + (total - own).exp()"
        )
    },
)

edited(
    "decay_summed_over_all_chunks",
    "Your decay since the start of the chunk is summed over all earlier chunks too, so the carried memory "
    "fades twice. Start the cumulative sum again in each chunk.",
    {"(delta[:, chunk] * A).cumsum(dim=1)": "(delta * A).cumsum(dim=1)[:, chunk]"},
)

edited(
    "own_input_left_out",
    "Your tokens do not read their own input: the diagonal is left out. Keep it, tril() and not tril(-1): "
    "the decay from a token to itself is 1.",
    {".triu(1)": ".triu()"},
)

edited(
    "own_decay_on_the_input",
    "Your input fades by the decay of its own token as well. Only the memory from before fades: from "
    "token j to token i, multiply the decays of the tokens j + 1 to i.",
    {
        "v = (delta[:, chunk, :, None] * x": (
            "own = (delta[:, chunk] * A).exp()[..., None]\n        v = (own * delta[:, chunk, :, None] * x"
        ),
    },
)

edited(
    "input_without_delta",
    "The input is written without its step size. Write delta x B^T: the step size is how long the input "
    "acts.",
    {"(delta[:, chunk, :, None] * x[:, chunk])": "x[:, chunk]"},
    gravity="slip",
)

edited(
    "decay_without_delta",
    "Your decay is exp(A), the same at every token. Use exp(delta A): the token chooses by its step size "
    "how much is forgotten.",
    {"(delta[:, chunk] * A).cumsum": "(torch.ones_like(delta[:, chunk]) * A).cumsum"},
)

edited(
    "decay_ignored",
    "Your memory does not fade: this is linear attention. Multiply the scores of two tokens by the decays "
    "between them, and the memory by exp(delta A).",
    {"(delta[:, chunk] * A)": "(0 * delta[:, chunk] * A)"},
)

edited(
    "memory_grows",
    "Your memory grows: A is negative already, so exp(-delta A) is above 1. Use exp(delta A).",
    {"(delta[:, chunk] * A)": "(-delta[:, chunk] * A)"},
)

edited(
    "rates_from_their_logarithm",
    "You compute -exp(A), as Mamba's code does because it stores the logarithm of the rates. Here A holds "
    "the rates themselves, below zero: use A as it is.",
    {"(delta[:, chunk] * A)": "(delta[:, chunk] * -A.exp())"},
    gravity="slip",
)

edited(
    "softplus_once_more",
    "You apply a softplus to the step sizes. Use delta as it comes: it is 0 or above already.",
    {"    H = x": "    delta = F.softplus(delta)\n    H = x"},
    gravity="slip",
)

edited(
    "rate_of_the_first_head",
    "All heads fade at the rate of head 0. Each head has its own rate: A is (h,).",
    {"* A)": "* A[0])"},
)

edited(
    "B_and_C_exchanged",
    "B and C are exchanged. Write the token to the memory by B, and read the memory by C: in the terms of "
    "attention, B is the key and C the query.",
    {"k, q = B[:, None, chunk], C[:, None, chunk]": "q, k = B[:, None, chunk], C[:, None, chunk]"},
    gravity="slip",
)

edited(
    "scaled_as_softmax",
    "Your scores are divided by sqrt(N), as for a softmax. Use C . B as it is.",
    {"C[:, None, chunk]": "C[:, None, chunk] / C.shape[-1] ** 0.5"},
    gravity="slip",
)

edited(
    "softmax_over_the_scores",
    "Your scores go through a softmax. Multiply C . B by the decays between the two tokens, and by "
    "nothing else.",
    {"(q @ k.mT * L) @ v": "torch.softmax((q @ k.mT).masked_fill(later, -torch.inf), dim=-1) * L @ v"},
)

edited(
    "input_added",
    "x is added to the output, as with D = 1 in Mamba. Return H C alone: this function has no D.",
    {"outputs, dim=2).transpose(1, 2)": "outputs, dim=2).transpose(1, 2) + x"},
    gravity="slip",
)

edited(
    "future_read",
    "Inside a chunk, your tokens read later ones. Keep only earlier tokens and the token itself: set the "
    "decay to a later token to 0.",
    {"(total - total.mT).masked_fill(later, -torch.inf).exp()": "(total - total.mT).clamp(max=0).exp()"},
    gravity="useless",
)

edited(
    "summed_over_the_heads",
    "Your sums of delta A run over the heads. Time is axis 1 of (B, T, h): cumsum(dim=1), before you move "
    "the heads forward.",
    {".cumsum(dim=1)": ".cumsum(dim=2)"},
)

edited(
    "heads_in_front",
    "Your result has the heads before the time. Return (B, T, h, p), as x is: move the axis back.",
    {"outputs, dim=2).transpose(1, 2)": "outputs, dim=2)"},
    gravity="slip",
)

edited(
    "exponential_before_the_mask",
    "Gradients are NaN where the decay is strong: exp of the sum to a later token overflows, and backward "
    "multiplies it by 0. Mask the sums first, then take exp.",
    {".masked_fill(later, -torch.inf).exp()": ".exp().masked_fill(later, 0)"},
)

edited(
    "divided_by_the_decay",
    "Your decays between two tokens are quotients of cumulative products, which are 0/0 where the decay "
    "is strong. Sum delta A, subtract the sums, mask, and take exp of the difference.",
    {"(total - total.mT).masked_fill(later, -torch.inf).exp()": "(total.exp() / total.exp().mT).tril()"},
)


@EXERCISE.misconception(
    "The tokens after the last full chunk get 0. Let the last chunk be shorter, or pad T to a multiple of "
    "chunk_size and cut the result."
)
def last_chunk_lost(x, delta, A, B, C, chunk_size):
    H = x.new_zeros(x.shape[0], x.shape[2], x.shape[3], B.shape[2])
    y = torch.zeros_like(x)
    for n in range(x.shape[1] // chunk_size):
        chunk = slice(n * chunk_size, (n + 1) * chunk_size)
        v = (delta[:, chunk, :, None] * x[:, chunk]).transpose(1, 2)
        k, q = B[:, None, chunk], C[:, None, chunk]
        total = (delta[:, chunk] * A).cumsum(dim=1).transpose(1, 2)[..., None]
        later = torch.ones(v.shape[2], v.shape[2], dtype=torch.bool, device=x.device).triu(1)
        L = (total - total.mT).masked_fill(later, -torch.inf).exp()
        y[:, chunk] = ((q @ k.mT * L) @ v + total.exp() * (q @ H.mT)).transpose(1, 2)
        left = (total[:, :, -1:] - total).exp()
        H = total[:, :, -1:].exp() * H + (left * v).mT @ k
    return y


wrong(
    EXERCISE,
    memories_in_a_loop,
    "padding_returned",
    "Your result has the padded length. Cut it back to T tokens: y[:, :T].",
    {"[:, :T]": ""},
)

wrong(
    EXERCISE,
    memories_in_a_loop,
    "memory_after_the_chunk",
    "Your tokens read the memory at the end of their chunk, which already holds the chunk itself. Keep the "
    "memory from before the chunk.",
    {
        "        before.append(H)\n": "",
        "+ written[:, :, c]\n": "+ written[:, :, c]\n        before.append(H)\n",
    },
)


@EXERCISE.misconception(
    "Your numbers are right, but every pair of tokens gets a score, and the cost grows with T^2. Score "
    "pairs within a chunk only, and carry a memory from chunk to chunk."
)
def all_pairs(x, delta, A, B, C, chunk_size):
    total = (delta * A).cumsum(dim=1).transpose(1, 2)[..., None]
    later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
    L = (total - total.mT).masked_fill(later, -torch.inf).exp()
    scores = (C @ B.mT)[:, None] * L
    return (scores @ (delta[..., None] * x).transpose(1, 2)).transpose(1, 2)


@EXERCISE.misconception(
    "Your numbers are right, but you go token by token. Compute all tokens of a chunk together: scores C "
    "B^T times decays, times delta x, plus what they read from the carried memory."
)
def token_by_token(x, delta, A, B, C, chunk_size):
    H = x.new_zeros(x.shape[0], x.shape[2], x.shape[3], B.shape[2])
    outputs = []
    for t in range(x.shape[1]):
        drive = (delta[:, t, :, None] * x[:, t])[..., None] * B[:, t, None, None]
        H = torch.exp(delta[:, t] * A)[..., None, None] * H + drive
        outputs.append((H * C[:, t, None, None]).sum(dim=-1))
    return torch.stack(outputs, dim=1)


edited(
    "memory_detached",
    "No gradient passes from chunk to chunk: the memory is cut off, as by .detach(). Let the gradient "
    "flow through the memory.",
    {"        k, q =": "        H = H.detach()\n        k, q ="},
)

edited(
    "float32_on_the_cpu",
    "Your memory is float32 on the cpu, whatever comes in. Use x.new_zeros(...), or pass dtype=x.dtype, "
    "device=x.device to torch.zeros.",
    {"x.new_zeros(": "torch.zeros("},
)

edited(
    "mask_on_the_cpu",
    "Your mask is on the cpu and cannot be combined with tensors on a graphics card. Make it with "
    "device=x.device.",
    {", device=x.device": ""},
)

edited(
    "inputs_changed_in_place",
    "You write into the caller's inputs, as `x *= ...` does. Write x = x * ..., which makes a new tensor.",
    {
        "    H = x": "    x *= delta[..., None]\n    H = x",
        "(delta[:, chunk, :, None] * x[:, chunk])": "x[:, chunk]",
    },
)
