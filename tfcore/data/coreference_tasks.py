"""The coreference sentences as data: held-out sentences, the lowest possible loss, a batch for every head."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from tfcore.data.batch import (
    BOS,
    EOS,
    IGNORE,
    PAD,
    Classification,
    LanguageModeling,
    Tagging,
    pad,
)
from tfcore.data.coreference import (
    ANIMAL_ADJECTIVES,
    ANIMALS,
    KIND_OF,
    PLACES,
    VOCABULARY,
    Sentence,
    sentences,
)

NO_NOUN, REFERENT, OTHER_NOUN = 0, 1, 2
"""The tags of ``tagging_batch``."""


@dataclass(frozen=True)
class Split:
    """The grammar in three parts that share no sentence.

    Attributes:
        train: the sentences that a model may see.
        held_out: new sentences, made of pairs of referent and adjective that occur in ``train``. Here a loss
            is compared with ``best_loss``.
        novel: every sentence whose pair of referent and adjective occurs in neither of the others, the tired
            animal and the wide street among them. No model can know that a dog may be ill; whether it
            answers "the dog" all the same shows what rule it has learned.

    >>> known = [sentence for _, sentence in zip(range(20), sentences()) if not is_novel(sentence)]
    >>> split = Split(train=tuple(known[:7]), held_out=tuple(known[7:8]), novel=())
    >>> expected = math.log(8) / 19  # 8 texts of 19 tokens
    >>> print(f"{split.best_loss(split.held_out):.4f} {expected:.4f}")
    0.1094 0.1094
    """

    train: tuple[Sentence, ...]
    held_out: tuple[Sentence, ...]
    novel: tuple[Sentence, ...]

    def best_loss(self, texts: Sequence[Sentence]) -> float:
        r"""Compute the mean cross-entropy per token that the true distribution reaches on some texts.

        $\frac{K \ln N}{\sum_k n_k}$ for K texts of n_k tokens, EOS counted, out of N equally likely ones.

        The true distribution is uniform over ``train`` and ``held_out`` together. A model that was trained on
        ``train`` cannot know which sentences were taken out, so that this bounds its expected loss on
        ``held_out``; memorizing ``train`` makes that worse. Texts of ``novel`` have probability 0 and loss
        infinity.

        Args:
            texts: sentences, as a rule ``held_out``.

        Returns:
            The loss in nats per token, to compare with the mean over all scored tokens of
            ``language_modeling_batch(texts)``.

        From: Shannon (1948), *A Mathematical Theory of Communication*.

        >>> split = split_sentences(torch.Generator().manual_seed(0))
        >>> print(f"{split.best_loss(split.held_out):.3f}")
        0.531
        """
        if not texts:
            raise ValueError("expected at least one text, got none; the mean is over their tokens")
        if any(is_novel(sentence) for sentence in texts):
            return math.inf
        tokens = sum(len(VOCABULARY.encode(sentence.text)) + 1 for sentence in texts)
        return len(texts) * math.log(len(self.train) + len(self.held_out)) / tokens


def is_novel(sentence: Sentence) -> bool:
    """Return whether the pair of referent and adjective is one that training never shows.

    One adjective in six is kept away from each noun, another for each neighbour in the list, so that all of
    the nouns and all of the adjectives do occur in training.

    >>> is_novel(Sentence("", "dog", "didn't", "cross", "street", "because", "ill"))
    True
    """
    nouns = ANIMALS if sentence.about_animal else PLACES
    adjectives = ANIMAL_ADJECTIVES if sentence.about_animal else KIND_OF[sentence.place].adjectives
    noun = nouns.index(sentence.referent_word)
    return (noun + adjectives.index(sentence.adjective)) % len(adjectives) == 0


def split_sentences(generator: torch.Generator, held_out_share: float = 0.1) -> Split:
    """Split all sentences: by pair of referent and adjective, and the rest by chance.

    Args:
        generator: the source of randomness that chooses the single sentences to hold out.
        held_out_share: share of the sentences with known pairs that is held out.

    Returns:
        The three parts.

    Raises:
        ValueError: a share that is not between 0 and 1.

    >>> split = split_sentences(torch.Generator().manual_seed(0))
    >>> print(len(split.train), len(split.held_out), len(split.novel))
    31104 3456 6912
    """
    if not 0 < held_out_share < 1:
        raise ValueError(f"expected a share between 0 and 1, got {held_out_share}; 0.1 holds out a tenth")
    everything = list(sentences())
    known = [sentence for sentence in everything if not is_novel(sentence)]
    order = torch.randperm(len(known), generator=generator, device=generator.device).tolist()
    shuffled = [known[i] for i in order]
    novel = tuple(sentence for sentence in everything if is_novel(sentence))
    num_held_out = round(held_out_share * len(known))
    return Split(tuple(shuffled[num_held_out:]), tuple(shuffled[:num_held_out]), novel)


def minimal_pairs(group: Iterable[Sentence]) -> list[tuple[Sentence, Sentence]]:
    """Pair sentences that differ in the adjective alone and therefore in what "it" means.

    Args:
        group: sentences; each is used at most once.

    Returns:
        Pairs, the sentence about the animal first, as many as the group allows.

    >>> tired, wide = minimal_pairs(sentences())[0]
    >>> print(tired.adjective, tired.referent_word, wide.adjective, wide.referent_word)
    tired animal wide street
    """
    frames: dict[tuple[str, ...], tuple[list[Sentence], list[Sentence]]] = {}
    for sentence in group:
        of_animal, of_place = frames.setdefault(sentence.words[:-1], ([], []))
        (of_animal if sentence.about_animal else of_place).append(sentence)
    return [pair for two_lists in frames.values() for pair in zip(*two_lists, strict=False)]


def language_modeling_batch(group: Sequence[Sentence]) -> LanguageModeling:
    """Encode statement, question and answer as BOS, words, EOS, with every token but padding as a label.

    Args:
        group: B sentences.

    Returns:
        Tokens and labels (B, T), padded on the right.

    >>> batch = language_modeling_batch(list(sentences())[:5])
    >>> print(batch.tokens.shape)
    torch.Size([5, 20])
    """
    tokens = pad([[BOS, *VOCABULARY.encode(sentence.text), EOS] for sentence in group])
    return LanguageModeling(tokens, tokens.masked_fill(tokens == PAD, IGNORE))


def answer_batch(group: Sequence[Sentence]) -> LanguageModeling:
    """Make the same tokens, and score only the answer: the noun that "it" means. The best loss is 0.

    Args:
        group: B sentences.

    Returns:
        Tokens and labels (B, T), one label in each row.

    >>> batch = answer_batch([next(sentences())])
    >>> print(VOCABULARY.decode(batch.labels[batch.labels != IGNORE]))
    animal
    """
    tokens, labels = language_modeling_batch(group)
    following = torch.cat([tokens[:, 1:], torch.full_like(tokens[:, :1], PAD)], dim=1)
    return LanguageModeling(tokens, labels.masked_fill(following != EOS, IGNORE))


def classification_batch(group: Sequence[Sentence]) -> Classification:
    """Encode statements as BOS and words, with label 0 if "it" means the animal and 1 if the place.

    Args:
        group: B sentences.

    Returns:
        Tokens (B, T), padded on the right, and labels (B,).

    >>> print(classification_batch(minimal_pairs(sentences())[0]).labels)
    tensor([0, 1])
    """
    labels = torch.tensor([int(not sentence.about_animal) for sentence in group])
    return Classification(_statements(group), labels)


def tagging_batch(group: Sequence[Sentence]) -> Tagging:
    """Encode statements as BOS and words, with a tag for every word: is it the noun that "it" means?

    Args:
        group: B sentences.

    Returns:
        Tokens and tags (B, T); a tag is NO_NOUN, REFERENT or OTHER_NOUN, and IGNORE at BOS and padding.

    >>> print(tagging_batch([next(sentences())]).tags)
    tensor([[-100, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0]])
    """
    rows = []
    for sentence in group:
        tags = [NO_NOUN] * len(sentence.words)
        tags[sentence.referent], tags[sentence.other] = REFERENT, OTHER_NOUN
        rows.append([IGNORE, *tags])
    return Tagging(_statements(group), pad(rows, IGNORE))


def _statements(group: Sequence[Sentence]) -> torch.Tensor:
    return pad([[BOS, *VOCABULARY.encode(sentence.statement)] for sentence in group])
