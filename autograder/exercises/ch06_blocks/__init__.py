"""Chapter 6: norms, gates and blocks. Exercises in the order of the notebook."""

ORDER = ("layer_norm", "rms_norm", "swiglu", "swiglu_hidden_size", "TransformerBlock", "DecoderBlock")
