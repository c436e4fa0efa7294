"""Mistakes that people make in `delta_rule`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

import torch

from autograder.checking.edits import wrong
from autograder.exercises.ch10_beyond_attention.delta_rule import EXERCISE
from autograder.exercises.ch10_beyond_attention.delta_rule_styles import (
    look_up_and_replace,
    matrix_form,
    solved_at_once,
)

edited = partial(wrong, EXERCISE, look_up_and_replace)
in_matrices = partial(wrong, EXERCISE, matrix_form)
at_once = partial(wrong, EXERCISE, solved_at_once)

edited(
    "nothing_forgotten",
    "Nothing is taken out of your memory: each token adds beta v k^T, as linear attention does. Look up the "
    "old value first, S k, and write beta (v - S k) k^T.",
    {"(v - old)": "v"},
)

edited(
    "read_before_write",
    "Your tokens do not read their own writing. Update S first, then take S q. If you compute "
    "all tokens at once, keep the diagonal: (Q K^T).tril().",
    {
        "        S = S + (": "        before, S = S, S + (",
        "(S @ q[": "(before @ q[",
    },
)

edited(
    "beta_on_the_write_only",
    "Your memory loses the whole old value, whatever beta is. Multiply the old and the new value by beta: S "
    "+ beta (v - S k) k^T.",
    {"(b[..., None] * (v - old))": "(b[..., None] * v - old)"},
)

edited(
    "beta_on_the_old_value_only",
    "Your new value is written in full, whatever beta is. Multiply the old and the new value by beta: S + "
    "beta (v - S k) k^T.",
    {"(b[..., None] * (v - old))": "(v - b[..., None] * old)"},
)

edited(
    "beta_twice_on_the_value",
    "The new value is multiplied by beta twice. Write beta (v - S k) k^T: the values come without beta.",
    {"(v - old)": "(b[..., None] * v - old)"},
)

edited(
    "beta_twice",
    "The change is multiplied by beta twice. Write beta (v - S k) k^T, with one factor beta.",
    {"(b[..., None] * (v - old))": "(b[..., None] ** 2 * (v - old))"},
)

edited(
    "beta_ignored",
    "beta makes no difference: your old value is always replaced in full. Write the share beta of the "
    "change: beta (v - S k) k^T.",
    {"b[..., None] * (v - old)": "v - old"},
)

edited(
    "sigmoid_of_beta",
    "You apply a sigmoid to beta. Use it as it comes: it is between 0 and 1 already.",
    {"beta[:, :, t]": "torch.sigmoid(beta[:, :, t])"},
    gravity="slip",
)

edited(
    "old_value_added",
    "The old value is added, not taken away, and the memory grows. Write the difference, v - S k.",
    {"(v - old)": "(v + old)"},
)

edited(
    "looked_up_by_the_query",
    "You look up the old value with the query. Look it up with the key, S k: the rule replaces the value of "
    "this key.",
    {"S @ k[..., None]": "S @ q[..., None]"},
)

edited(
    "all_keys_fade",
    "Your whole memory loses the share beta, under every key. Take out only the value under this key: "
    "subtract beta (S k) k^T, which is S times beta k k^T.",
    {
        "        old = (S @ k[..., None]).squeeze(-1)\n": "",
        "S = S + (b[..., None] * (v - old))": "S = (1 - b[..., None, None]) * S + (b[..., None] * v)",
    },
)

at_once(
    "looked_up_among_the_values",
    "Your tokens look up the values of earlier tokens, not the differences that these tokens have written. "
    "Go token by token, or solve the triangular system: each writing depends on all writings before it.",
    {
        "system = (overlap.tril(-1) + torch": "system = (torch",
        "(beta[..., None] * value).double()": "(beta[..., None] * value - overlap.tril(-1) @ value).double()",
    },
)

at_once(
    "diagonal_in_the_system",
    "Your system has beta k . k on its diagonal besides the 1: a token looks up its own writing. Let it look "
    "up only the memory before it. Use only the part below the diagonal: tril(-1).",
    {"overlap.tril(-1)": "overlap.tril()"},
)

at_once(
    "future_read",
    "Your tokens read what later tokens write. Keep only earlier tokens and the token itself: (Q "
    "K^T).tril().",
    {".mT).tril() @ written": ".mT) @ written"},
    gravity="useless",
)

edited(
    "memory_transposed",
    "Your memory is transposed: you write k v^T, but read S k and S q. With S of d_v x d_k write v k^T; with "
    "S of d_k x d_v read S^T k and S^T q.",
    {
        "value[:, :, 0, :, None] * key[:, :, 0, None]": "key[:, :, 0, :, None] * value[:, :, 0, None]",
        "(b[..., None] * (v - old))[..., :, None] * k[..., None, :]": (
            "k[..., :, None] * (b[..., None] * (v - old))[..., None, :]"
        ),
    },
)

edited(
    "read_transposed",
    "You read S^T q. With S of d_v x d_k read S q; S^T fits only where d_k and d_v happen to be equal.",
    {"S @ q[..., None]": "S.mT @ q[..., None]"},
)

in_matrices(
    "matrix_from_the_left",
    "You multiply S by I - beta k k^T from the left, where only matrices of d_v x d_v fit. Multiply from the "
    "right, S (I - beta k k^T): the keys are on that side of S.",
    {
        "S @ (eye - b * k @ k.mT)": "(eye - b * k @ k.mT) @ S",
    },
)

edited(
    "backwards",
    "You run backwards in time, from the last token to the first. Run forwards: token t reads what tokens 0 "
    "to t have written.",
    {
        "in range(": "in reversed(range(",
        ".shape[2]):": ".shape[2])):",
        "stack(outputs, ": "stack(outputs[::-1], ",
    },
    gravity="useless",
)

edited(
    "nothing_carried",
    "Your memory is empty at every token. Make it once, before the loop, and let every token change it.",
    {
        "    S = torch.zeros_like(value[:, :, 0, :, None] * key[:, :, 0, None])\n": "",
        "        old =": "        S = torch.zeros_like(v[..., :, None] * k[..., None, :])\n        old =",
    },
    gravity="useless",
)

edited(
    "one_memory_for_all_heads",
    "All heads write into one memory. Give each head of each sequence its own: S is (B, h, d_v, d_k).",
    {"* k[..., None, :]\n": "* k[..., None, :]\n        S = S.sum(dim=1, keepdim=True).expand_as(S)\n"},
)


@EXERCISE.misconception(
    "Your memory is not emptied between heads and sequences: each starts with the memory of the one "
    "before. Set S to zeros inside the loop over heads."
)
def memory_not_emptied(query, key, value, beta):
    out = torch.empty_like(value)
    S = value.new_zeros(value.shape[-1], key.shape[-1])
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):
            for t in range(query.shape[2]):
                q, k, v = query[b, h, t], key[b, h, t], value[b, h, t]
                S = S + beta[b, h, t] * torch.outer(v - S @ k, k)
                out[b, h, t] = S @ q
    return out


@EXERCISE.misconception(
    "You step through the heads as if they were time. Time is axis 2 of (B, h, T, d): loop over "
    "query.shape[2], and take query[:, :, t]."
)
def heads_taken_for_time(query, key, value, beta):
    S = torch.zeros_like(value[:, 0, :, :, None] * key[:, 0, :, None])
    outputs = []
    for t in range(query.shape[1]):
        q, k, v, b = query[:, t], key[:, t], value[:, t], beta[:, t]
        old = (S @ k[..., None]).squeeze(-1)
        S = S + (b[..., None] * (v - old))[..., :, None] * k[..., None, :]
        outputs.append((S @ q[..., None]).squeeze(-1))
    return torch.stack(outputs, dim=1)


edited(
    "keys_normalised_over_heads",
    "Your keys are normalised over the heads: F.normalize(key) takes axis 1 if you name none. Use the "
    "keys as they come, of length 1, or write dim=-1.",
    {"    S = torch": "    key = F.normalize(key)\n    S = torch"},
)

edited(
    "queries_normalised",
    "Your queries are brought to length 1. Use them as they come: only the keys must have length 1, and they "
    "do.",
    {"query[:, :, t]": "F.normalize(query[:, :, t], dim=-1)"},
    gravity="slip",
)

edited(
    "scaled_as_softmax",
    "Your queries are divided by sqrt(d_k), as for a softmax. Use them as they come: a query equal to its "
    "key must read exactly what was written.",
    {"query[:, :, t]": "query[:, :, t] / query.shape[-1] ** 0.5"},
    gravity="slip",
)

edited(
    "feature_map",
    "Your queries and keys go through elu + 1, as in linear attention. Use them as they are: the keys have "
    "length 1, but not after the map.",
    {"query[:, :, t], key[:, :, t]": "F.elu(query[:, :, t]) + 1, F.elu(key[:, :, t]) + 1"},
)

edited(
    "divided_by_a_normaliser",
    "Your output is divided by the sum of q . k, as in linear attention. Return S q: the delta rule keeps "
    "the memory in bounds by itself, and q . k can be 0.",
    {
        "    outputs = []": "    z, outputs = torch.zeros_like(key[:, :, 0]), []",
        "        outputs.append((S @ q[..., None]).squeeze(-1))": (
            "        z = z + k\n"
            "        outputs.append((S @ q[..., None]).squeeze(-1) / (q * z).sum(-1, keepdim=True))"
        ),
    },
)

edited(
    "time_in_front",
    "The tokens are the first axis of your result: torch.stack(outputs) puts them there. Write "
    "torch.stack(outputs, dim=2), so that it is (B, h, T, d_v).",
    {", dim=2)": ")"},
    gravity="slip",
)

edited(
    "memory_detached",
    "No gradient reaches the keys and values of earlier tokens: the memory is cut off from them, as by "
    ".detach(). Let the gradient flow through the memory.",
    {"old = (S @": "S = S.detach()\n        old = (S @"},
)

edited(
    "memory_changed_in_place",
    "An operation in place, such as `S += ...`, writes over numbers that autograd needs, and backward fails. "
    "Write S = S + ..., which makes a new tensor.",
    {"S = S + (b": "S += (b"},
)

edited(
    "float32_on_the_cpu",
    "Your memory or your result is float32 on the cpu, whatever comes in. Use value.new_zeros(...), or pass "
    "dtype=value.dtype, device=value.device to torch.zeros.",
    {
        "torch.zeros_like(value[:, :, 0, :, None] * key[:, :, 0, None])": (
            "torch.zeros(*key.shape[:2], value.shape[-1], key.shape[-1])"
        ),
        "q, k, v, b = query[:, :, t], key[:, :, t], value[:, :, t], beta[:, :, t]": (
            "q, k, v, b = (x[:, :, t].to(S.dtype) for x in (query, key, value, beta))"
        ),
    },
)

edited(
    "values_changed_in_place",
    "You write into the caller's values, as `v -= S k` does where v is value[:, :, t]. Write v = v - S k, "
    "which makes a new tensor.",
    {
        "old = (S @ k[..., None]).squeeze(-1)": "v -= (S @ k[..., None]).squeeze(-1)",
        "(v - old)": "v",
    },
)

edited(
    "difference_reversed",
    "The difference has the wrong sign: the new value is taken out, and the old one is added once more. "
    "Write beta (v - S k) k^T.",
    {"(v - old)": "(old - v)"},
)

edited(
    "read_by_the_key",
    "Your output is S k: the memory is read by the key. Read it by the query, S q.",
    {"(S @ q[": "(S @ k["},
)

edited(
    "written_under_the_query",
    "Your tokens write under their query. Write under the key: beta (v - S k) k^T.",
    {"k[..., None, :]": "q[..., None, :]"},
)

edited(
    "old_memory_dropped",
    "Each token leaves only its own writing in the memory. Add the writing to the old memory: S = S + ...",
    {"S = S + (": "S = ("},
)
