"""Chapter 2: query, key, value. Exercises in the order of the notebook."""

ORDER = ("softmax", "project_qkv", "attention_scores", "scaled_dot_product_attention", "soft_lookup")
