"""Chapter 10: beyond attention. Exercises in the order of the notebook."""

ORDER = (
    "linear_attention",
    "delta_rule",
    "gated_delta_rule",
    "wkv",
    "selective_scan",
    "ssd_chunked",
)
