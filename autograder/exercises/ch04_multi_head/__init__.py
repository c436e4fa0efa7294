"""Chapter 4: multi-head attention. Exercises in the order of the notebook."""

ORDER = ("split_heads", "merge_heads", "MultiHeadAttention", "repeat_kv", "parameter_count")
