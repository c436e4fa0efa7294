"""Chapter 8: the KV cache. Exercises in the order of the notebook."""

ORDER = (
    "KVCache",
    "generate_cached",
    "kv_cache_bytes",
    "SlidingWindowCache",
    "quantize_kv",
    "dequantize_kv",
)
