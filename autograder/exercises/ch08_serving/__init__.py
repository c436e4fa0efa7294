"""Chapter 8: serving many texts, and guessing ahead. Exercises in the order of the notebook."""

ORDER = (
    "PagedCache",
    "speculative_accept",
    "accept_tree",
)
CHAPTER = "08_kv_cache"
