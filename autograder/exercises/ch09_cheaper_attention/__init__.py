"""Chapter 9: cheaper attention. Exercises in the order of the notebook."""

ORDER = (
    "sliding_window_mask",
    "tiled_attention",
    "ring_attention",
    "absorbed_scores",
    "route_top_k",
)
