"""Chapter 5: positions. Exercises in the order of the notebook."""

ORDER = (
    "sinusoidal_encoding",
    "shift_matrix",
    "apply_rope",
    "alibi_bias",
    "t5_relative_bucket",
    "yarn_frequencies",
)
