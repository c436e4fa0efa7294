"""Generation: text from a model that gives logits.

Read the files in this order: ``sampling.py`` (from logits to a token), ``reader.py`` (each token is read
once), ``loop.py`` (token by token), ``beam.py`` (several texts side by side), ``speculative.py`` (several
tokens per call), ``tree.py`` (several guesses per place), ``compiled.py`` (a step as one program),
``translate.py`` (from a source).
"""

from tfcore.generate.beam import beam_search
from tfcore.generate.compiled import CompiledDecoder
from tfcore.generate.loop import generate
from tfcore.generate.sampling import filter_logits, min_p_filter, token_probabilities
from tfcore.generate.speculative import speculative_accept, speculative_generate
from tfcore.generate.translate import Conditioned, translate
from tfcore.generate.tree import accept_tree, tree_mask

__all__ = [
    "CompiledDecoder",
    "Conditioned",
    "accept_tree",
    "beam_search",
    "filter_logits",
    "generate",
    "min_p_filter",
    "speculative_accept",
    "speculative_generate",
    "token_probabilities",
    "translate",
    "tree_mask",
]
