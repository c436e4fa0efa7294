"""The data of the course: made here, seeded, and understood well enough to know the best possible loss.

``copy_batch``, ``reversal_batch``, ``adding_batch``, ``induction_batch`` and ``bracket_batch`` draw from an
explicit ``torch.Generator``. The coreference sentences are a finite list (``split_sentences``); ``draw``
picks from it, and a batch is made of the picked: for a language model, classifier, tagger or translator.
"""

from tfcore.data.adding import Adding, adding_batch
from tfcore.data.batch import (
    BOS,
    EOS,
    FIRST_SYMBOL,
    IGNORE,
    PAD,
    Classification,
    LanguageModeling,
    SequenceToSequence,
    Tagging,
    draw,
    pad,
)
from tfcore.data.brackets import BRACKETS, Brackets, bracket_batch, pair_depths, show_brackets
from tfcore.data.copying import copy_batch
from tfcore.data.coreference import VOCABULARY, Sentence, fault, num_sentences, parse, sentences
from tfcore.data.coreference_tasks import (
    NO_NOUN,
    OTHER_NOUN,
    REFERENT,
    Split,
    answer_batch,
    classification_batch,
    is_novel,
    language_modeling_batch,
    minimal_pairs,
    split_sentences,
    tagging_batch,
)
from tfcore.data.induction import Induction, induction_batch
from tfcore.data.prose import book_prose
from tfcore.data.reversal import reversal_batch
from tfcore.data.translation import TARGET_VOCABULARY, translate, translation_batch
from tfcore.data.vocabulary import WordVocabulary

__all__ = [
    "BOS",
    "BRACKETS",
    "EOS",
    "FIRST_SYMBOL",
    "IGNORE",
    "NO_NOUN",
    "OTHER_NOUN",
    "PAD",
    "REFERENT",
    "TARGET_VOCABULARY",
    "VOCABULARY",
    "Adding",
    "Brackets",
    "Classification",
    "Induction",
    "LanguageModeling",
    "Sentence",
    "SequenceToSequence",
    "Split",
    "Tagging",
    "WordVocabulary",
    "adding_batch",
    "answer_batch",
    "book_prose",
    "bracket_batch",
    "classification_batch",
    "copy_batch",
    "draw",
    "fault",
    "induction_batch",
    "is_novel",
    "language_modeling_batch",
    "minimal_pairs",
    "num_sentences",
    "pad",
    "pair_depths",
    "parse",
    "reversal_batch",
    "sentences",
    "show_brackets",
    "split_sentences",
    "tagging_batch",
    "translate",
    "translation_batch",
]
