"""Faults in the rooms whose cost is linear in time: rows of the table in ``mutants.py``."""

ROWS = [
    (
        "Mamba's input not discretised",
        "selective_scan:selective_scan_carry",
        "(delta_t * u_t).unsqueeze(-1)",
        "u_t.unsqueeze(-1)",
    ),
    ("Mamba's shortcut left out", "selective_scan:selective_scan_carry", " + D * u_t", ""),
    ("RWKV's bonus left out", "wkv:_with_bonus", "torch.exp(u + key - peak)", "torch.exp(key - peak)"),
    (
        "linear attention not normalised",
        "linear_attention:_normalise",
        "weights.masked_fill(weights == 0, 1.0)",
        "1.0",
    ),
    ("a token decays at its own step too", "decay:decay_mask", "~causal.tril(-1)", "~causal"),
    (
        "a delta rule that forgets nothing, in steps",
        "delta_rule:gated_delta_rule_step",
        "b.unsqueeze(-1) * (v - found)",
        "b.unsqueeze(-1) * v",
    ),
    (
        "a delta rule that forgets nothing, in chunks",
        "delta_rule:gated_delta_rule_carry",
        "overlap = b *",
        "overlap = 0 *",
    ),
    (
        "beta on one side, in steps",
        "delta_rule:gated_delta_rule_step",
        "b.unsqueeze(-1) * (v - found)",
        "b.unsqueeze(-1) * v - found",
    ),
    (
        "beta on one side, in chunks",
        "delta_rule:gated_delta_rule_carry",
        "overlap = b * (k",
        "overlap = (k",
    ),
    (
        "read before the write, in steps",
        "delta_rule:gated_delta_rule_step",
        "return (state @",
        "return ((state - written.unsqueeze(-1) * k.unsqueeze(-2)) @",
    ),
    (
        "read before the write, in chunks",
        "delta_rule:gated_delta_rule_carry",
        "(q @ k.mT * between) @ written",
        "(q @ k.mT * between).tril(-1) @ written",
    ),
    (
        "a transposed memory, in steps",
        "delta_rule:gated_delta_rule_step",
        "written.unsqueeze(-1) * k.unsqueeze(-2)",
        "written.unsqueeze(-2) * k.unsqueeze(-1)",
    ),
    (
        "a transposed memory, from chunk to chunk",
        "delta_rule:gated_delta_rule_carry",
        "written.mT @ (until_end * k)",
        "(until_end * k).mT @ written",
    ),
    (
        "decay after the write, in steps",
        "delta_rule:gated_delta_rule_step",
        "state = state + written.unsqueeze(-1) *",
        "state = state + (g.exp().unsqueeze(-1) * written).unsqueeze(-1) *",
    ),
    (
        "the value that is found has not decayed",
        "delta_rule:gated_delta_rule_carry",
        "missing = b * (v - since_start *",
        "missing = b * (v -",
    ),
    (
        "a memory lost between chunks",
        "delta_rule:gated_delta_rule_carry",
        "since_start[..., -1:, :] * state",
        "0 * state",
    ),
    (
        "no decay between chunks",
        "delta_rule:gated_delta_rule_carry",
        "since_start[..., -1:, :] * state",
        "state",
    ),
    (
        "writings that do not decay until the chunk's end",
        "delta_rule:gated_delta_rule_carry",
        "(until_end * k)",
        "k",
    ),
]
