"""Chapter 3: the scaling proof. Exercises in the order of the notebook."""

ORDER = (
    "dot_product_stats",
    "dot_product_variance",
    "softmax_jacobian",
    "attention_entropy",
    "scale_for_unit_variance",
)
