"""A small written language in which one word decides what "it" means.

    the animal didn't cross the street because it was too tired . what was tired ? the animal
    the animal didn't cross the street because it was too wide . what was wide ? the street

The grammar, with an animal or a place as the referent of "it" by the kind of the adjective:

    text       -> statement . what was ADJECTIVE ? the REFERENT
    statement  -> the [MODIFIER] ANIMAL AUXILIARY VERB the PLACE CONNECTIVE it was too ADJECTIVE

A verb, and an adjective of places, must suit the kind of the place: one climbs hills, and they are steep.
Every kind has as many adjectives as there are for animals, so that either referent is equally likely,
whatever was read before the adjective. A language model reads from left to right and answers the question
after the sentence. All texts are equally likely: the best possible loss is a matter of counting.

From: Levesque, Davis and Morgenstern (2012), *The Winograd Schema Challenge*; the sentence about the animal
and the street is from Uszkoreit (2017), *Transformer: A Novel Neural Network Architecture*.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import product

from tfcore.data.vocabulary import WordVocabulary


@dataclass(frozen=True)
class Kind:
    """Places of one kind, the verbs that animals do there, and the adjectives that fit them.

    >>> [place for place in PLACES if "deep" in KIND_OF[place].adjectives]
    ['river', 'lake', 'stream', 'cave', 'tunnel', 'mine']
    """

    places: tuple[str, ...]
    verbs: tuple[str, ...]
    adjectives: tuple[str, ...]


MODIFIERS = ("", "old", "young")
ANIMALS = (
    *("animal", "dog", "cat", "horse", "goat", "sheep"),
    *("fox", "bear", "wolf", "donkey", "rabbit", "camel"),
)
AUXILIARIES = ("didn't", "couldn't")
KINDS = (
    Kind(
        places=("street", "road", "highway"),
        verbs=("cross", "follow"),
        adjectives=("wide", "busy", "icy", "dusty", "long", "bumpy"),
    ),
    Kind(
        places=("river", "lake", "stream"),
        verbs=("cross", "enter"),
        adjectives=("wide", "deep", "icy", "muddy", "murky", "choppy"),
    ),
    Kind(
        places=("hill", "mountain", "cliff"),
        verbs=("climb", "descend"),
        adjectives=("steep", "high", "icy", "rocky", "slippery", "crumbly"),
    ),
    Kind(
        places=("cave", "tunnel", "mine"),
        verbs=("enter", "explore"),
        adjectives=("deep", "dark", "narrow", "damp", "muddy", "dusty"),
    ),
)
CONNECTIVES = ("because", "since")
ANIMAL_ADJECTIVES = ("tired", "hungry", "scared", "weak", "lazy", "ill")

PLACES = tuple(place for kind in KINDS for place in kind.places)
KIND_OF = {place: kind for kind in KINDS for place in kind.places}
VERBS = tuple(dict.fromkeys(verb for kind in KINDS for verb in kind.verbs))
PLACE_ADJECTIVES = tuple(dict.fromkeys(adjective for kind in KINDS for adjective in kind.adjectives))

VOCABULARY = WordVocabulary(
    [
        *("the", *MODIFIERS[1:], *ANIMALS, *AUXILIARIES, *VERBS, *PLACES, *CONNECTIVES, "it", "was", "too"),
        *(*ANIMAL_ADJECTIVES, *PLACE_ADJECTIVES, ".", "what", "?"),
    ]
)
"""The words of the grammar and their ids."""


@dataclass(frozen=True)
class Sentence:
    """One sentence of the grammar, by the choices that were made in it.

    >>> sentence = Sentence("", "animal", "didn't", "cross", "street", "because", "tired")
    >>> sentence.statement
    "the animal didn't cross the street because it was too tired"
    >>> places = sentence.pronoun, sentence.referent, sentence.other
    >>> tuple(sentence.words[place] for place in places)
    ('it', 'animal', 'street')
    """

    modifier: str
    animal: str
    auxiliary: str
    verb: str
    place: str
    connective: str
    adjective: str

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words of the statement."""
        begin = ("the", self.modifier, self.animal) if self.modifier else ("the", self.animal)
        main = (self.auxiliary, self.verb, "the", self.place)
        return (*begin, *main, self.connective, "it", "was", "too", self.adjective)

    @property
    def about_animal(self) -> bool:
        """Return whether "it" means the animal, not the place."""
        return self.adjective in ANIMAL_ADJECTIVES

    @property
    def referent_word(self) -> str:
        """Return the noun that "it" means."""
        return self.animal if self.about_animal else self.place

    @property
    def referent(self) -> int:
        """Index in ``words`` of the noun that "it" means."""
        return self.words.index(self.referent_word)

    @property
    def other(self) -> int:
        """Index in ``words`` of the noun that "it" does not mean."""
        return self.words.index(self.place if self.about_animal else self.animal)

    @property
    def pronoun(self) -> int:
        """Index in ``words`` of "it"."""
        return self.words.index("it")

    @property
    def statement(self) -> str:
        """Return the statement as text, which classifiers, taggers and translators read."""
        return " ".join(self.words)

    @property
    def prompt(self) -> str:
        """Return the text up to the word that names the referent."""
        return f"{self.statement} . what was {self.adjective} ? the"

    @property
    def text(self) -> str:
        """Return the text that a language model is trained on: the statement, the question and the answer."""
        return f"{self.prompt} {self.referent_word}"


def num_sentences() -> int:
    """Count the sentences of the grammar, by multiplication.

    >>> num_sentences()
    41472
    """
    free = len(MODIFIERS) * len(ANIMALS) * len(AUXILIARIES) * len(CONNECTIVES)
    return free * sum(
        len(kind.places) * len(kind.verbs) * (len(ANIMAL_ADJECTIVES) + len(kind.adjectives)) for kind in KINDS
    )


def sentences() -> Iterator[Sentence]:
    """Go through all sentences of the grammar, each once, always in the same order.

    >>> next(sentences()).statement
    "the animal didn't cross the street because it was too tired"
    """
    for kind in KINDS:
        adjectives = (*ANIMAL_ADJECTIVES, *kind.adjectives)
        for modifier, animal, auxiliary, verb, place, connective, adjective in product(
            MODIFIERS, ANIMALS, AUXILIARIES, kind.verbs, kind.places, CONNECTIVES, adjectives
        ):
            yield Sentence(modifier, animal, auxiliary, verb, place, connective, adjective)


def parse(text: str) -> Sentence:
    """Read a statement, or a statement with its question and answer.

    Args:
        text: words, as ``Sentence.statement`` or ``Sentence.text`` give them.

    Returns:
        The sentence; ``parse(s.text) == parse(s.statement) == s``.

    Raises:
        ValueError: the text is not in the grammar; the message names the word and the rule that it breaks.

    >>> parse("The old dog couldn't climb the hill since it was too steep.").referent_word
    'hill'
    """
    reader = _Reader(WordVocabulary.split(text))
    reader.take(["the"], "'the'")
    modifier = reader.take(MODIFIERS[1:], "a modifier") if reader.sees(MODIFIERS) else ""
    animal = reader.take(ANIMALS, "an animal")
    auxiliary = reader.take(AUXILIARIES, "a negated auxiliary")
    verb = reader.take(VERBS, "a verb")
    reader.take(["the"], "'the'")
    suited = [place for place in PLACES if verb in KIND_OF[place].verbs]
    place = reader.take(suited, f"a place to {verb}")
    connective = reader.take(CONNECTIVES, "a connective")
    for word in ("it", "was", "too"):
        reader.take([word], f"'{word}'")
    adjectives = (*ANIMAL_ADJECTIVES, *KIND_OF[place].adjectives)
    adjective = reader.take(adjectives, f"an adjective of animals or of a {place}")
    sentence = Sentence(modifier, animal, auxiliary, verb, place, connective, adjective)
    if not reader.at_end():
        reader.take(["."], "'.'")
    if not reader.at_end():
        for word in ("what", "was"):
            reader.take([word], f"'{word}'")
        reader.take([adjective], "the adjective of the statement")
        reader.take(["?"], "'?'")
        reader.take(["the"], "'the'")
        reader.take([sentence.referent_word], f"what is too {adjective}")
    if not reader.at_end():
        raise ValueError(f"expected the end after word {reader.place}, got {reader.word!r}; leave it out")
    return sentence


def fault(text: str) -> str | None:
    """Return the reason why a text is not in the grammar; None if it is.

    >>> fault("the dog didn't climb the river because it was too wide")
    "expected a place to climb as word 6, got 'river'; take one of hill, mountain, cliff"
    >>> fault("the dog didn't climb the hill because it was too high")
    """
    try:
        parse(text)
    except ValueError as error:
        return str(error)
    return None


class _Reader:
    """Words read one by one, with a complaint about the first that does not fit."""

    def __init__(self, words: list[str]) -> None:
        self.words, self.place = words, 0

    @property
    def word(self) -> str:
        return "the end of the text" if self.at_end() else self.words[self.place]

    def at_end(self) -> bool:
        return self.place == len(self.words)

    def sees(self, choices: Collection[str]) -> bool:
        return not self.at_end() and self.word in choices

    def take(self, choices: Collection[str], role: str) -> str:
        if not self.sees(choices):
            raise ValueError(
                f"expected {role} as word {self.place + 1}, got {self.word!r}; "
                f"take one of {', '.join(choices)}"
            )
        self.place += 1
        return self.words[self.place - 1]
