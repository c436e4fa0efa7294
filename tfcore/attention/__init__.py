"""Scaled dot-product attention as one function, :func:`attention`, with interchangeable backends.

Read the files in this order: ``explicit.py`` (the textbook), ``merge.py`` and ``tiled.py`` (the same numbers
without the T x T matrix), ``fused.py`` (torch's kernels and their traps), ``triton_kernels.py`` and
``triton.py`` (our own kernels for GPUs), ``pattern.py`` (the allowed pairs), ``api.py`` (the function).
"""

from tfcore.attention.api import BACKENDS, attention
from tfcore.attention.merge import merge

__all__ = ["BACKENDS", "attention", "merge"]
