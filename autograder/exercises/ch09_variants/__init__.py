"""Chapter 9: variants of attention. Exercises in the order of the notebook."""

ORDER = (
    "sliding_window_mask",
    "tiled_attention",
    "ring_attention",
    "linear_attention",
    "wkv",
    "selective_scan",
    "route_top_k",
)
