"""Chapter 10: beyond attention. Exercises in the order of the notebook."""

ORDER = (
    "linear_attention",
    "wkv",
    "selective_scan",
)
