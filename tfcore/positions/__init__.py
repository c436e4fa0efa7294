"""Six ways to tell a model the order of its tokens.

Sinusoidal and learned vectors are added to the embeddings (``absolute.py``). T5 and Shaw learn something
for each distance (``relative.py``), ALiBi subtracts the distance from the scores (``alibi.py``), RoPE turns
queries and keys (``rotary.py``). ``module.py`` puts any one of them into a model.
"""

from tfcore.positions.absolute import sinusoids
from tfcore.positions.alibi import alibi_bias, alibi_slopes
from tfcore.positions.module import Order, Positions
from tfcore.positions.relative import shaw_bias, t5_relative_bucket
from tfcore.positions.rotary import Rotation, apply_rope, interleaved_to_half, inverse_frequencies

__all__ = [
    "Order",
    "Positions",
    "Rotation",
    "alibi_bias",
    "alibi_slopes",
    "apply_rope",
    "interleaved_to_half",
    "inverse_frequencies",
    "shaw_bias",
    "sinusoids",
    "t5_relative_bucket",
]
