"""Right blocks of the bank with some of their text changed, for the tests of chapter 6."""

import torch
import torch.nn.functional as F
from torch import nn

from autograder import exercises
from autograder.exercises.ch06_blocks.given import MultiHeadAttention


def changed(exercise, style, *edits):
    """A right answer of the bank with some of its text changed."""
    declared = exercises.find(exercise)
    source = next(s for s in declared.styles if s.name == style).source(exercise)
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    namespace = {"torch": torch, "nn": nn, "F": F, "MultiHeadAttention": MultiHeadAttention}
    exec(source, namespace)
    return namespace[exercise]


def block(*edits):
    return changed("TransformerBlock", "two_branches", *edits)


def decoder(*edits):
    return changed("DecoderBlock", "three_lines", *edits)


def normed(x, d=-1):
    return (x - x.mean(d, keepdim=True)) / (x.var(d, keepdim=True, correction=0) + 1e-5).sqrt()
