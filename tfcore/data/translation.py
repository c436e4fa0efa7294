"""Translation into an invented language, by rule, which needs the noun that "it" means.

Nouns have one of two genders, heard in their last vowel. Article and adjective follow the noun and agree with
it, verbs come last in their clause, and "it" is *so* or *se* by the gender of the noun that it replaces:

    the animal didn't cross the street because it was too tired
    pato lo kite le puki luki vuki so luto tami pami
    the animal didn't cross the street because it was too wide
    pato lo kite le puki luki vuki se kake tami pami

From: the grammar of Uszkoreit's (2017) example, in which French says *il* or *elle* for "it".
"""

from __future__ import annotations

from collections.abc import Sequence

from tfcore.data.batch import BOS, EOS, SequenceToSequence, pad
from tfcore.data.coreference import (
    ANIMAL_ADJECTIVES,
    ANIMALS,
    AUXILIARIES,
    CONNECTIVES,
    MODIFIERS,
    PLACE_ADJECTIVES,
    PLACES,
    VERBS,
    VOCABULARY,
    Sentence,
)
from tfcore.data.vocabulary import WordVocabulary

GENDERS = ("o", "e")
GENDER_OF = {noun: "oe"[number % 2] for number, noun in enumerate(ANIMALS)} | {
    noun: "eo"[number % 2] for number, noun in enumerate(PLACES)
}
"""The last letter of a noun, and so of all that agrees with it. The animal and the street differ."""

_SYLLABLES = [consonant + vowel for vowel in "aiu" for consonant in "ptkmnslrvd"]


def _stems(words: Sequence[str], first: int) -> dict[str, str]:
    """Coin a stem for each word: a syllable and a consonant, another for every number below 300."""
    numbers = range(first, first + len(words))
    return {w: _SYLLABLES[n % 30] + "tkmnslrvdp"[n // 30] for w, n in zip(words, numbers, strict=True)}


NOUNS = {noun: stem + GENDER_OF[noun] for noun, stem in _stems((*ANIMALS, *PLACES), 0).items()}
"""The nouns of both languages."""

ADJECTIVE_STEMS = _stems((*MODIFIERS[1:], *ANIMAL_ADJECTIVES, *PLACE_ADJECTIVES), len(NOUNS))
"""The adjectives, to be completed with the gender of the noun."""

OTHER_WORDS = {
    word: stem + "i"
    for word, stem in _stems(
        (*VERBS, *AUXILIARIES, *CONNECTIVES, "was", "too"), len(NOUNS) + len(ADJECTIVE_STEMS)
    ).items()
}
"""Verbs and small words, which do not change."""

TARGET_VOCABULARY = WordVocabulary(
    [
        *NOUNS.values(),
        *(stem + gender for stem in ADJECTIVE_STEMS.values() for gender in GENDERS),
        *OTHER_WORDS.values(),
        *(word + gender for word in ("l", "s") for gender in GENDERS),
    ]
)
"""The words of the invented language and their ids."""


def translate(sentence: Sentence) -> str:
    """Translate a statement into the invented language.

    Args:
        sentence: a sentence of the grammar.

    Returns:
        Its translation; two sentences never share one.

    >>> for adjective in ("tired", "wide"):
    ...     words = "", "animal", "didn't", "cross", "street", "because", adjective
    ...     print(translate(Sentence(*words)))
    pato lo kite le puki luki vuki so luto tami pami
    pato lo kite le puki luki vuki se kake tami pami
    """
    gender = GENDER_OF[sentence.referent_word]
    return " ".join(
        [
            *_noun_phrase(sentence.animal, sentence.modifier),
            *_noun_phrase(sentence.place),
            OTHER_WORDS[sentence.verb],
            OTHER_WORDS[sentence.auxiliary],
            OTHER_WORDS[sentence.connective],
            "s" + gender,
            ADJECTIVE_STEMS[sentence.adjective] + gender,
            OTHER_WORDS["too"],
            OTHER_WORDS["was"],
        ]
    )


def translation_batch(group: Sequence[Sentence]) -> SequenceToSequence:
    """Encode statements as source, and their translations as target.

    Args:
        group: B sentences.

    Returns:
        Source (B, S) in ids of ``VOCABULARY`` and target (B, T) in ids of ``TARGET_VOCABULARY``, the target
        between BOS and EOS, both padded on the right.

    >>> sentence = Sentence("", "animal", "didn't", "cross", "street", "because", "tired")
    >>> batch = translation_batch([sentence])
    >>> TARGET_VOCABULARY.decode(batch.target[0]) == translate(sentence)
    True
    """
    return SequenceToSequence(
        pad([VOCABULARY.encode(sentence.statement) for sentence in group]),
        pad([[BOS, *TARGET_VOCABULARY.encode(translate(sentence)), EOS] for sentence in group]),
    )


def _noun_phrase(noun: str, modifier: str = "") -> list[str]:
    gender = GENDER_OF[noun]
    phrase = [NOUNS[noun], "l" + gender]
    return [*phrase, ADJECTIVE_STEMS[modifier] + gender] if modifier else phrase
