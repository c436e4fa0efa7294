"""Chapter 7: causal masking and generation. Exercises in the order of the notebook."""

ORDER = (
    "causal_mask",
    "combine_masks",
    "next_token_loss",
    "find_leaks",
    "filter_logits",
    "min_p",
    "generate",
)
