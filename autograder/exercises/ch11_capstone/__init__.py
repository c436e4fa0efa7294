"""Chapter 11: the capstone. Exercises in the order of the notebook."""

ORDER = ("TinyGPT", "find_coreference_head", "TinyLlama")
