"""Byte-level byte-pair encoding (BPE): text to token ids and back without loss, as GPT-2 does it.

Text is cut into words (``words.py``), a word into its UTF-8 bytes (``visible.py``), and the bytes are joined
again by merges that were learned from a training text (``merges.py``). Every text has a code, since every
byte is a token. ``bpe.py`` puts this together, ``file.py`` knows the format of tokenizer.json.

This is the version to read. ``BPETokenizer.fast`` gives the same tokenizer in the ``tokenizers`` library,
the version to use.
"""

from tfcore.tokenizer.bpe import BPETokenizer
from tfcore.tokenizer.merges import learn_merges, merge_word
from tfcore.tokenizer.visible import byte_to_unicode
from tfcore.tokenizer.words import SPLITS, split_words

__all__ = ["SPLITS", "BPETokenizer", "byte_to_unicode", "learn_merges", "merge_word", "split_words"]
