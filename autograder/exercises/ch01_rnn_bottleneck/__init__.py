"""Chapter 1: the bottleneck of recurrent networks. Exercises in the order of the notebook."""

ORDER = ("rnn_forward", "gradient_norms", "critical_path", "additive_attention")
