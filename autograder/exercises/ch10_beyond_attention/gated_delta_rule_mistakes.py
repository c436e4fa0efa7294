"""Mistakes that people make in `gated_delta_rule`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

import torch

from autograder.checking.edits import wrong
from autograder.exercises.ch10_beyond_attention.gated_delta_rule import EXERCISE
from autograder.exercises.ch10_beyond_attention.gated_delta_rule_styles import (
    in_chunks,
    solved_before_the_memory,
    token_by_token,
    written_into_the_result,
)

stepwise = partial(wrong, EXERCISE, token_by_token)
chunked = partial(wrong, EXERCISE, in_chunks)
padded = partial(wrong, EXERCISE, solved_before_the_memory)

FADES = "        S = torch.exp(log_decay[:, :, t])[..., None, None] * S\n"
SOLVED = (
    "        written = "
    "torch.linalg.solve_triangular(system.tril(-1), missing, upper=False, unitriangular=True)\n"
)
READS = "        outputs.append((S @ q[..., None]).squeeze(-1))\n"
WRITES = "        S = S + (b * (v - old))[..., :, None] * k[..., None, :]\n"

stepwise(
    "no_decay",
    "Your memory does not fade: this is the delta rule without its gate. Multiply S by exp(log_decay) at "
    "each token, before the look-up.",
    {FADES: ""},
)

stepwise(
    "decay_after_the_write",
    "The new value fades too, as when the memory fades after the write. Let S fade first, then look up and "
    "write the value as it is.",
    {FADES: "", WRITES: WRITES + FADES},
)

stepwise(
    "decay_after_the_read",
    "Your memory fades by the decay of the previous token, as when it fades after the read. Let token t fade "
    "the memory that it finds: multiply S by exp(log_decay[:, :, t]) before the look-up.",
    {
        FADES: "",
        READS: READS + FADES,
    },
)

stepwise(
    "looked_up_before_the_decay",
    "Your old value is looked up in the memory that has not faded, so too much is taken out. Let S fade "
    "first, and look up in the faded memory.",
    {FADES: "", "        S = S + (b": FADES + "        S = S + (b"},
)

stepwise(
    "only_the_old_value_fades",
    "Your look-up fades, but the memory keeps everything. Multiply S itself by exp(log_decay), then look "
    "up in it.",
    {
        FADES: "",
        "(S @ k[..., None]).squeeze(-1)": "log_decay[:, :, t, None].exp() * (S @ k[..., None]).squeeze(-1)",
    },
)

stepwise(
    "exponential_forgotten",
    "You multiply the memory by log_decay itself. It is a logarithm, at most 0: multiply by its "
    "exponential, which is between 0 and 1.",
    {"torch.exp(log_decay[:, :, t])": "log_decay[:, :, t]"},
)

stepwise(
    "memory_grows",
    "Your memory grows: log_decay is negative already, so exp(-log_decay) is above 1. Multiply by "
    "exp(log_decay).",
    {"torch.exp(log_decay": "torch.exp(-log_decay"},
)

stepwise(
    "one_plus_the_logarithm",
    "Your decay is 1 + log_decay, which is only the start of exp(log_decay), and below 0 for a strong "
    "decay. Use the exponential.",
    {"torch.exp(log_decay[:, :, t])": "(1 + log_decay[:, :, t])"},
)

stepwise(
    "sigmoid_for_the_exponential",
    "Your decay is sigmoid(log_decay), at most a half. log_decay is a logarithm already: use exp(log_decay).",
    {"torch.exp(": "torch.sigmoid("},
)

stepwise(
    "decay_of_the_first_head",
    "All heads fade by the decay of head 0. Each head has its own: log_decay[:, :, t] is (B, h).",
    {"log_decay[:, :, t])": "log_decay[:, :1, t])"},
)

stepwise(
    "nothing_replaced",
    "Your memory fades, but nothing is replaced: the old value of the key stays. Look it up, S k, and "
    "write beta (v - S k) k^T.",
    {"(v - old)": "v"},
)

stepwise(
    "read_before_write",
    "Your tokens do not read their own writing. Update S first, then take S q. In a chunk, keep the "
    "diagonal of Q K^T.",
    {"        S = S + (b": "        before, S = S, S + (b", "(S @ q[": "(before @ q["},
)

stepwise(
    "beta_on_the_write_only",
    "Your memory loses the whole old value, whatever beta is. Multiply the difference by beta: beta (v - "
    "S k) k^T.",
    {"(b * (v - old))": "(b * v - old)"},
)

stepwise(
    "beta_on_the_old_value_only",
    "Your new value is written in full, whatever beta is. Multiply the difference by beta: beta (v - S k) "
    "k^T.",
    {"(b * (v - old))": "(v - b * old)"},
)

stepwise(
    "scaled_as_softmax",
    "Your queries are divided by sqrt(d_k), as for a softmax. Use them as they come.",
    {"query[:, :, t],": "query[:, :, t] / query.shape[-1] ** 0.5,"},
    gravity="slip",
)

stepwise(
    "time_in_front",
    "The tokens are the first axis of your result: torch.stack(outputs) puts them there. Write "
    "torch.stack(outputs, dim=2), so that it is (B, h, T, d_v).",
    {", dim=2)": ")"},
    gravity="slip",
)

chunked(
    "memory_not_carried",
    "Each of your chunks starts with an empty memory. Make S once, before the loop over chunks, and pass "
    "it from chunk to chunk.",
    {"        total =": "        S = torch.zeros_like(S)\n        total ="},
)

chunked(
    "old_chunks_not_looked_up",
    "Your tokens look up only values of their own chunk. Also take away what the memory of the earlier "
    "chunks holds: v - gamma (S k), with gamma the decay since the start of the chunk.",
    {"(v - start * (k @ S.mT))": "v"},
)

chunked(
    "carried_memory_not_faded_in_the_look_up",
    "Inside a chunk, your look-up finds the carried memory as it was at the start. Multiply S k by the "
    "decay since the start of the chunk.",
    {"(v - start * (k @ S.mT))": "(v - k @ S.mT)"},
)

chunked(
    "carried_memory_not_faded_in_the_output",
    "Inside a chunk, your queries read the carried memory as it was at the start. Multiply S q by the "
    "decay since the start of the chunk.",
    {"outputs.append(start * (q @ S.mT)": "outputs.append(q @ S.mT"},
)

chunked(
    "carried_memory_not_faded_at_the_end",
    "Your carried memory does not fade from chunk to chunk. At the end of a chunk, multiply S by the "
    "decay of the whole chunk before you add to it.",
    {"S = start[:, :, -1:] * S": "S = S"},
)

chunked(
    "decay_without_the_token_itself",
    "Your decay since the start of the chunk is off by one: it leaves the token's own decay out. Sum "
    "log_decay up to the token itself: cumsum does.",
    {"start = torch.exp(total)": "start = torch.exp(total - g)"},
)

chunked(
    "writings_not_faded_at_the_end",
    "Your chunk adds its writings to the memory at full strength. Each has faded since: multiply it by "
    "the decay from its token to the end of the chunk.",
    {"end = torch.exp(total[:, :, -1:] - total)": "end = 1"},
)

chunked(
    "writings_faded_from_the_start",
    "Your chunk adds each writing with the decay from the start of the chunk to its token. Use the decay "
    "from its token to the end of the chunk.",
    {"torch.exp(total[:, :, -1:] - total)": "start"},
)

chunked(
    "decay_summed_over_all_chunks",
    "Your decay since the start of the chunk is summed over all earlier chunks too, so the carried memory "
    "fades twice. Start the cumulative sum again in each chunk.",
    {
        "beta[..., None], log_decay[..., None])]": "beta[..., None], log_decay[..., None].cumsum(dim=2))]",
        "total = g.cumsum(dim=2)": "total = g",
    },
)

chunked(
    "diagonal_in_the_system",
    "Your system has beta k . k on its diagonal besides the 1: a token looks up its own writing. Use only "
    "the part below the diagonal: tril(-1).",
    {
        SOLVED: (
            "        eye = torch.eye(len(later), dtype=g.dtype, device=g.device)\n"
            "        written = torch.linalg.solve_triangular(system.tril() + eye, missing, upper=False)\n"
        )
    },
)

chunked(
    "system_not_solved",
    "The tokens of one chunk do not look up each other's writings. Solve the triangular system, or go "
    "token by token.",
    {SOLVED: "        written = missing\n"},
)

chunked(
    "system_without_decay",
    "Inside a chunk, your look-up finds earlier writings unfaded. Multiply K K^T in the system by the "
    "decays between the tokens.",
    {"b * (k @ k.mT) * between": "b * (k @ k.mT)"},
)

chunked(
    "output_without_decay",
    "Inside a chunk, your queries read earlier writings unfaded. Multiply Q K^T by the decays between the "
    "tokens, and keep only earlier tokens and the token itself.",
    {"(q @ k.mT * between)": "(q @ k.mT).tril()"},
)

chunked(
    "future_read",
    "Inside a chunk, your tokens read what later tokens write. Keep only earlier tokens and the token "
    "itself: set the decay to a later token to 0.",
    {"(q @ k.mT * between)": "(q @ k.mT * (total - total.mT).clamp(max=0).exp())"},
    gravity="useless",
)

chunked(
    "exponential_before_the_mask",
    "Gradients are NaN where the decay is strong: exp of the difference to a later token overflows, and "
    "backward multiplies it by 0. Mask the differences first, then take exp.",
    {".masked_fill(later, -torch.inf).exp()": ".exp().masked_fill(later, 0)", "x.double()": "x.float()"},
)

chunked(
    "divided_by_the_decay",
    "Your decays between two tokens are quotients of decays since the start, which are 0/0 where the "
    "decay is strong. Subtract the logarithms, mask, and take exp of the difference.",
    {
        "(total - total.mT).masked_fill(later, -torch.inf).exp()": "(start / start.mT).tril()",
        "x.double()": "x.float()",
    },
)


@EXERCISE.misconception(
    "The tokens after the last full chunk get 0. Let the last chunk be shorter, or pad T to a multiple of "
    "chunk_size and cut the result."
)
def last_chunk_lost(query, key, value, beta, log_decay, chunk_size):
    out = torch.zeros_like(value)
    S = torch.zeros_like(value[:, :, 0, :, None] * key[:, :, 0, None])
    for chunk in range(query.shape[2] // chunk_size):
        for t in range(chunk * chunk_size, (chunk + 1) * chunk_size):
            q, k, v, b = query[:, :, t], key[:, :, t], value[:, :, t], beta[:, :, t, None]
            S = torch.exp(log_decay[:, :, t])[..., None, None] * S
            S = S + (b * (v - (S @ k[..., None]).squeeze(-1)))[..., None] * k[..., None, :]
            out[:, :, t] = (S @ q[..., None]).squeeze(-1)
    return out


padded(
    "padding_returned",
    "Your result has the padded length. Cut it back to T tokens: out[:, :, :T].",
    {"[:, :, :T]": ""},
)

chunked(
    "chunks_cut_from_the_heads",
    "You cut the heads into chunks. Time is axis 2 of (B, h, T, d): split along dim=2.",
    {"x.split(chunk_size, dim=2)": "x.split(chunk_size, dim=1)"},
)

chunked(
    "memory_detached",
    "No gradient passes from chunk to chunk: the memory is cut off, as by .detach(). Let the gradient "
    "flow through the memory.",
    {"        total =": "        S = S.detach()\n        total ="},
)

stepwise(
    "memory_changed_in_place",
    "An operation in place, such as `S *= ...`, writes over numbers that autograd needs, and backward "
    "fails. Write S = ... * S, which makes a new tensor.",
    {FADES: "        S *= torch.exp(log_decay[:, :, t])[..., None, None]\n"},
)

stepwise(
    "decays_changed_in_place",
    "You write into the caller's log_decay, as log_decay.exp_() does. Write log_decay.exp(), which makes "
    "a new tensor.",
    {
        "    outputs = []": "    log_decay.exp_()\n    outputs = []",
        "torch.exp(log_decay[:, :, t])": "log_decay[:, :, t]",
    },
)

stepwise(
    "values_changed_in_place",
    "You write into the caller's values, as `v -= S k` does where v is value[:, :, t]. Write v = v - S k, "
    "which makes a new tensor.",
    {"old = (S @ k": "v -= (S @ k", "(v - old)": "v"},
)

wrong(
    EXERCISE,
    written_into_the_result,
    "float32_on_the_cpu",
    "Your memory or your result is float32 on the cpu, whatever comes in. Use value.new_zeros(...), or "
    "pass dtype=value.dtype, device=value.device to torch.zeros.",
    {"torch.empty_like(value)": "torch.zeros(value.shape)", ", device=key.device": ""},
)

stepwise(
    "looked_up_by_the_query",
    "You look up the old value with the query. Look it up with the key, S k: the rule replaces the value of "
    "this key.",
    {"old = (S @ k[": "old = (S @ q["},
)

stepwise(
    "decays_summed_since_the_start",
    "At each token your memory fades by the product of all decays so far. Multiply S by the decay of this "
    "token alone; S has the earlier ones already.",
    {"log_decay[:, :, t]": "log_decay.cumsum(dim=2)[:, :, t]"},
)

stepwise(
    "decay_of_the_next_token",
    "Your memory fades by the decay of the next token. At token t, multiply S by exp(log_decay[:, :, t]).",
    {"log_decay[:, :, t]": "log_decay[:, :, min(t + 1, query.shape[2] - 1)]"},
)

chunked(
    "system_without_beta",
    "Your beta does not multiply the whole change of a token: it misses what the look-up finds among the "
    "chunk's own writings. Write beta_i L_ij (k_i . k_j) in the system.",
    {"system = b * (k": "system = (k"},
)

chunked(
    "memory_replaced_by_the_chunk",
    "Each of your chunks passes on only its own writings. Add them to the memory from before the chunk, "
    "multiplied by the decay of the whole chunk.",
    {"start[:, :, -1:] * S + written": "written"},
)
