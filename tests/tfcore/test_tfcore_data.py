"""The data of the course: each task against a rule that was written here, and the grammar counted out."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise, product

import pytest
import torch
import torch.nn.functional as F

from tfcore import data
from tfcore.data import BOS, EOS, FIRST_SYMBOL, IGNORE, PAD, Sentence
from tfcore.data.brackets import _well_formed_word
from tfcore.data.coreference import ANIMALS, KINDS, PLACES


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# --- what all of them promise

DRAWN = {
    "copy": lambda g: data.copy_batch(7, 5, 11, g),
    "reversal": lambda g: data.reversal_batch(7, 2, 6, 11, g),
    "adding": lambda g: data.adding_batch(7, 30, g),
    "induction": lambda g: data.induction_batch(7, 30, 4, 9, 13, g),
    "brackets": lambda g: data.bracket_batch(7, 4, 10, 3, g),
    "coreference": lambda g: data.language_modeling_batch(
        data.draw(data.split_sentences(g, held_out_share=0.2).train, 7, g)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_the_same_seed_gives_the_same_batch_and_another_another(name):
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    one, again, other = DRAWN[name](seeded(5)), DRAWN[name](seeded(5)), DRAWN[name](seeded(6))
    assert all(torch.equal(x, y) for x, y in zip(one, again, strict=True))
    assert any(x.shape != y.shape or not torch.equal(x, y) for x, y in zip(one, other, strict=True))
    assert torch.equal(before, torch.random.get_rng_state()), "the global generator was touched"


def test_one_generator_goes_on():
    generator = seeded()
    assert not torch.equal(*(data.copy_batch(7, 5, 11, generator).tokens for _ in range(2)))


BAD = [
    lambda: data.copy_batch(0, 5, 11, seeded()),
    lambda: data.copy_batch(3, 0, 11, seeded()),
    lambda: data.copy_batch(3, 5, 1, seeded()),
    lambda: data.reversal_batch(3, 5, 4, 11, seeded()),
    lambda: data.adding_batch(3, 21, seeded()),
    lambda: data.induction_batch(3, 30, 4, 12, 11, seeded()),
    lambda: data.induction_batch(3, 10, 4, 9, 11, seeded()),
    lambda: data.induction_batch(3, 10, 1, 4, 11, seeded()),
    lambda: data.bracket_batch(3, 5, 5, 2, seeded()),
    lambda: data.bracket_batch(3, 4, 6, 5, seeded()),
    lambda: data.split_sentences(seeded(), held_out_share=1.0),
    lambda: data.language_modeling_batch([]),
    lambda: data.VOCABULARY.encode("the unicorn"),
    lambda: data.VOCABULARY.decode([-1]),
    lambda: data.VOCABULARY.decode([3, IGNORE]),
    lambda: data.VOCABULARY.decode([3, 4.5]),
    lambda: data.VOCABULARY.decode([math.nan]),
    lambda: data.VOCABULARY.decode([len(data.VOCABULARY)]),
    lambda: data.draw([], 2, seeded()),
    lambda: data.draw("abc", -1, seeded()),
]


@pytest.mark.parametrize("call", BAD)
def test_what_does_not_fit_is_refused_with_advice(call):
    with pytest.raises(ValueError, match=r"expected .*, got .*; "):
        call()


# --- copy, reversal, adding, induction


def test_copy_scores_the_second_copy_alone():
    tokens, labels = data.copy_batch(64, 5, 11, seeded())
    assert tokens.shape == labels.shape == (64, 12)
    assert (tokens[:, 0] == BOS).all()
    assert (tokens[:, 6] == EOS).all()
    assert torch.equal(tokens[:, 1:6], tokens[:, 7:])
    assert set(tokens[:, 1:6].flatten().tolist()) == set(range(FIRST_SYMBOL, FIRST_SYMBOL + 11))
    assert (labels[:, :7] == IGNORE).all()
    assert torch.equal(labels[:, 7:], tokens[:, 7:])


def test_reversal_is_its_own_oracle_in_plain_lists():
    batch = data.reversal_batch(200, 2, 6, 11, seeded())
    lengths = Counter()
    for source, target in zip(batch.source.tolist(), batch.target.tolist(), strict=True):
        symbols = [s for s in source if s != PAD]
        lengths[len(symbols)] += 1
        assert source == symbols + [PAD] * (6 - len(symbols))
        assert target == [BOS, *symbols[::-1], EOS] + [PAD] * (6 - len(symbols))
    assert set(lengths) == {2, 3, 4, 5, 6}
    assert torch.equal(batch.source_padding.sum(1), (batch.target > EOS).sum(1))


def test_a_decoder_reads_the_target_and_is_to_say_it_one_step_later():
    batch = data.reversal_batch(20, 2, 6, 11, seeded())
    for target, read, say in zip(
        batch.target.tolist(), batch.decoder_input.tolist(), batch.labels.tolist(), strict=True
    ):
        assert read == target[:-1]
        assert say == [IGNORE if t == PAD else t for t in target[1:]]
        assert EOS in say


def test_adding_targets_follow_from_the_marks():
    inputs, targets = data.adding_batch(3000, 40, seeded())
    assert inputs.shape == (3000, 40, 2)
    values, marks = inputs.unbind(-1)
    first_marked = 0
    for value, mark, target in zip(values.tolist(), marks.tolist(), targets.tolist(), strict=True):
        places = [i for i, m in enumerate(mark) if m == 1]
        assert len(places) == 2
        assert min(places) < 10
        assert max(places) < 20
        assert mark[-1] == -1
        assert mark[0] == (1 if 0 in places else -1)
        assert all(m == 0 for i, m in enumerate(mark) if i not in (0, 39, *places))
        assert target == pytest.approx(0.5 + sum(value[i] for i in places) / 4)
        first_marked += 0 in places and value[0] == 0
    assert 0 < first_marked < 1000
    assert values.min() < -0.99
    assert values.max() > 0.99
    assert targets.var() == pytest.approx(1 / 24, rel=0.1)


def test_induction_repeats_and_scores_what_can_be_known():
    tokens, labels, periods = data.induction_batch(300, 30, 4, 9, 13, seeded())
    for row, label, period in zip(tokens.tolist(), labels.tolist(), periods.tolist(), strict=True):
        assert row == [row[t % period] for t in range(30)]
        assert len(set(row[:period])) == period
        for t in range(30):
            seen_before = t > 0 and row[t - 1] in row[: t - 1]  # so that one can look up what came next
            assert label[t] == (row[t] if seen_before else IGNORE)
            if seen_before:
                assert row[row.index(row[t - 1]) + 1] == row[t]


def test_the_period_of_induction_is_uniform_and_drawn_for_each_sequence():
    periods = data.induction_batch(6000, 12, 4, 9, 13, seeded()).periods
    counts = torch.bincount(periods, minlength=10)
    assert counts[:4].sum() == 0
    chi_square = ((counts[4:] - 1000) ** 2 / 1000).sum()
    assert chi_square < 30  # 5 degrees of freedom: by chance once in 70,000 seeds


# --- brackets


def erased(word: str) -> str:
    """Erase neighbouring pairs until there are none: what is left is empty for a well-formed word."""
    while True:
        shorter = word
        for pair in ("()", "[]", "{}", "<>"):
            shorter = shorter.replace(pair, "")
        if shorter == word:
            return word
        word = shorter


def stack_depths(word: str) -> list[int]:
    depth, depths = 0, []
    for bracket in word:
        depth += bracket in "([{<"
        depths.append(depth)
        depth -= bracket in ")]}>"
    return depths


def test_the_label_of_a_word_says_whether_its_pairs_can_be_erased():
    tokens, labels, tags = data.bracket_batch(400, 3, 11, 3, seeded())
    assert 150 < labels.sum() < 250
    lengths = Counter()
    for row, label, tag in zip(tokens.tolist(), labels.tolist(), tags.tolist(), strict=True):
        word = data.show_brackets(row)
        lengths[len(word)] += 1
        assert row[0] == BOS
        assert PAD not in row[1 : len(word) + 1]
        assert set(row[len(word) + 1 :]) <= {PAD}
        assert (erased(word) == "") == (label == 1) == (0 not in tag), word
        assert tag[0] == IGNORE
        assert set(tag[len(word) + 1 :]) <= {IGNORE}
        assert sum(word.count(b) for b in "([{<") * 2 == len(word), "a count gives the class away"
        assert all(word.count(a) == word.count(b) for a, b in ("()", "[]", "{}", "<>"))
        if label:
            assert tag[1 : len(word) + 1] == stack_depths(word)
    assert set(lengths) == {4, 6, 8, 10}


# In "([)]" the ")" finds "[" open and is passed over, so that the "]" has its partner.
PARTNERS = {
    "([)]": [0, 2, 0, 2],
    ")(": [0, 0],
    "(()": [0, 2, 2],
    "())": [1, 1, 0],
    "{": [0],
    "<}>": [1, 0, 1],
}


@pytest.mark.parametrize("word", PARTNERS)
def test_brackets_without_a_partner_have_depth_0(word):
    assert data.pair_depths(FIRST_SYMBOL + data.BRACKETS.index(b) for b in word) == PARTNERS[word]


@pytest.mark.slow
def test_all_shapes_of_one_length_are_equally_likely():
    generator = seeded()
    counts = Counter(data.show_brackets(_well_formed_word(4, 1, generator)) for _ in range(2800))
    assert len(counts) == math.comb(8, 4) // 5  # Catalan's number
    chi_square = sum((n - 200) ** 2 / 200 for n in counts.values())
    assert chi_square < 45  # 13 degrees of freedom: by chance once in 50,000 seeds


# --- the coreference grammar

ALL = list(data.sentences())


def test_the_grammar_has_as_many_sentences_as_the_rules_multiply_to():
    assert len(ALL) == data.num_sentences() == len(set(ALL))
    assert len({s.text for s in ALL}) == len({s.statement for s in ALL}) == len(ALL) > 10_000


def test_every_sentence_is_read_back():
    for sentence in ALL[::37]:
        assert data.parse(sentence.text) == data.parse(sentence.statement) == sentence
        assert data.fault(sentence.text + " .") is not None


@pytest.mark.slow
def test_the_referent_is_told_by_the_adjective_alone():
    of_animals = {"tired", "hungry", "scared", "weak", "lazy", "ill"}
    nouns = {*ANIMALS, *PLACES}
    for sentence in ALL:
        words = sentence.text.split()
        first, second = (i for i, word in enumerate(words[: words.index("it")]) if word in nouns)
        expected = first if sentence.adjective in of_animals else second
        assert (sentence.referent, sentence.other) == (expected, first + second - expected)
        assert words[sentence.pronoun] == "it"
        assert words[-1] == words[expected]
        assert words[words.index("?") - 1] == sentence.adjective


def test_no_adjective_suits_both_animals_and_places():
    of_animal = {s.adjective for s in ALL if s.about_animal}
    of_place = {s.adjective for s in ALL if not s.about_animal}
    assert len(of_animal) == 6
    assert not of_animal & of_place


def test_either_referent_is_equally_likely_after_any_frame():
    frames: dict[tuple[str, ...], Counter] = {}
    for sentence in ALL:
        frames.setdefault(sentence.words[:-1], Counter())[sentence.about_animal] += 1
    assert {(c[True], c[False]) for c in frames.values()} == {(6, 6)}


WRONG = {
    "": "expected 'the' as word 1",
    "a dog": "expected 'the' as word 1",
    "the old street": "an animal as word 3, got 'street'",
    "the dog didn't climb the river": "a place to climb as word 6",
    "the dog didn't cross the street because it was": "'too' as word 10, got 'the end of the text'",
    "the dog didn't cross the street because it was too steep": "an adjective of animals or of a street",
    "the dog didn't cross the street because it was too tired because": "'.' as word 12",
    "the dog didn't cross the street because it was too tired . what was wide": "of the statement",
    "the dog didn't cross the street because it was too tired . what was tired ? the street": "too tired",
    "the dog didn't cross the street because it was too tired . what was tired ? the dog dog": "leave it out",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_text_outside_the_grammar_is_refused_with_the_reason(text):
    assert WRONG[text] in data.fault(text)
    with pytest.raises(ValueError, match=r"expected .*, got .*; "):
        data.parse(text)


def test_exchanging_a_word_for_a_word_that_does_not_fit_is_noticed():
    texts, vocabulary = {s.text for s in ALL}, data.VOCABULARY.words[FIRST_SYMBOL:]
    words = ALL[-5].text.split()
    for place, word in product(range(len(words)), vocabulary):
        changed = " ".join([*words[:place], word, *words[place + 1 :]])
        assert (data.fault(changed) is None) == (changed in texts), changed


@pytest.fixture(scope="module")
def split() -> data.Split:
    return data.split_sentences(seeded())


@pytest.mark.slow
def test_the_three_parts_share_nothing_and_lose_nothing(split):
    parts = [set(part) for part in (split.train, split.held_out, split.novel)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == len(ALL)
    assert len(split.held_out) == round(0.1 * (len(split.train) + len(split.held_out)))


@pytest.mark.slow
def test_novel_pairs_of_noun_and_adjective_occur_nowhere_else(split):
    def pairs(part):
        return {(s.referent_word, s.adjective) for s in part}

    assert not pairs(split.novel) & (pairs(split.train) | pairs(split.held_out))
    assert pairs(split.held_out) == pairs(split.train)
    assert ("animal", "tired") in pairs(split.novel)
    assert ("street", "wide") in pairs(split.novel)


def test_training_shows_every_word_and_every_adjective_to_either_side(split):
    seen = {word for s in split.train for word in s.text.split()}
    assert seen == set(data.VOCABULARY.words[FIRST_SYMBOL:])
    assert {s.referent_word for s in split.train} == {*ANIMALS, *PLACES}


@pytest.mark.parametrize("part", ["train", "held_out", "novel"])
def test_the_parts_are_balanced(split, part):
    group = getattr(split, part)
    share = sum(s.about_animal for s in group) / len(group)
    assert share == pytest.approx(0.5, abs=0.03)
    if part == "novel":
        assert share == 0.5


@pytest.mark.slow
def test_the_best_loss_is_what_cross_entropy_gives_to_the_next_words_counted_out(split):
    """Brute force: what goes on from each beginning, counted, as logits in the loss that a model is given."""
    group = split.held_out[:25]
    batch = data.language_modeling_batch(group)
    known = [tuple(data.VOCABULARY.encode(s.text)) for s in (*split.train, *split.held_out)]
    logits = torch.full((*batch.tokens.shape, len(data.VOCABULARY)), -math.inf, dtype=torch.float64)
    for row, sentence in enumerate(group):
        ids = tuple(data.VOCABULARY.encode(sentence.text))
        going_on = known
        for length, _ in enumerate([*ids, EOS]):
            follow = Counter(text[length] if len(text) > length else EOS for text in going_on)
            for token, times in follow.items():
                logits[row, length, token] = math.log(times)
            if length < len(ids):
                going_on = [text for text in going_on if len(text) > length and text[length] == ids[length]]
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), batch.labels[:, 1:].flatten())
    assert split.best_loss(group) == pytest.approx(loss.item(), rel=1e-9)


def test_a_novel_text_has_no_finite_loss(split):
    assert split.best_loss([*split.held_out[:3], split.novel[0]]) == math.inf
    assert split.best_loss(split.held_out[:3]) < math.inf


@pytest.mark.slow
@pytest.mark.parametrize("part", ["train", "novel", "all"])
def test_minimal_pairs_differ_in_the_adjective_and_in_the_referent(split, part):
    group = ALL if part == "all" else getattr(split, part)
    pairs = data.minimal_pairs(group)
    used = [s for pair in pairs for s in pair]
    assert len(used) == len(set(used))
    assert set(used) <= set(group)
    if part != "train":
        assert len(used) == len(group), "nobody is left alone"
    for one, other in pairs:
        assert one.words[:-1] == other.words[:-1]
        assert one.words[-1] != other.words[-1]
        assert (one.referent, one.other) == (other.other, other.referent)
        assert one.about_animal


# --- the batches that are made of sentences

TWO = [
    Sentence("old", "goat", "couldn't", "explore", "mine", "since", "damp"),
    Sentence("", "fox", "didn't", "follow", "road", "because", "weak"),
]


def test_a_language_model_reads_statement_question_and_answer():
    tokens, labels = data.language_modeling_batch(TWO)
    assert [data.VOCABULARY.decode(row) for row in tokens] == [s.text for s in TWO]
    assert tokens[0, 0] == tokens[1, 0] == BOS
    assert tokens[0, -1] == tokens[1, -2] == EOS
    assert tokens[1, -1] == PAD
    assert torch.equal(labels == IGNORE, tokens == PAD)
    assert torch.equal(labels[labels != IGNORE], tokens[tokens != PAD])


def test_the_answer_alone_is_scored():
    tokens, labels = data.answer_batch(TWO)
    assert torch.equal(tokens, data.language_modeling_batch(TWO).tokens)
    scored = [[data.VOCABULARY.words[i] for i in row if i != IGNORE] for row in labels.tolist()]
    assert scored == [["mine"], ["fox"]]
    for row, label, sentence in zip(tokens, labels, TWO, strict=True):
        (place,) = (label != IGNORE).nonzero().flatten().tolist()
        assert data.VOCABULARY.decode(row[:place]) == sentence.prompt


def test_classes_and_tags_name_the_referent():
    tokens, labels = data.classification_batch(TWO)
    same_tokens, tags = data.tagging_batch(TWO)
    assert torch.equal(tokens, same_tokens)
    assert [data.VOCABULARY.decode(row) for row in tokens] == [s.statement for s in TWO]
    assert labels.tolist() == [1, 0]
    for row, tag, sentence in zip(tokens.tolist(), tags.tolist(), TWO, strict=True):
        words = [data.VOCABULARY.words[i] for i in row]
        assert words[tag.index(data.REFERENT)] == sentence.referent_word
        assert words[tag.index(data.OTHER_NOUN)] in {sentence.animal, sentence.place} - {
            sentence.referent_word
        }
        assert [t == IGNORE for t in tag] == [w in ("<bos>", "<pad>") for w in words]
        assert Counter(tag)[data.NO_NOUN] == len(sentence.words) - 2


def test_the_vocabulary_reads_capitals_and_signs_and_gives_words_back():
    text = "The fox didn't follow the road because it was too weak. What was weak?"
    assert data.VOCABULARY.decode(data.VOCABULARY.encode(text)) == text.lower().replace(".", " .").replace(
        "?", " ?"
    )
    words = data.VOCABULARY.words
    assert len(words) == len(set(words)) == len(data.VOCABULARY)
    assert (words[PAD], words[BOS], words[EOS]) == ("<pad>", "<bos>", "<eos>")


# --- translation


def test_no_two_sentences_have_one_translation():
    assert len({data.translate(s) for s in ALL}) == len(ALL)
    assert len(data.TARGET_VOCABULARY.words) == len(set(data.TARGET_VOCABULARY.words))


@pytest.mark.slow
def test_the_pronoun_agrees_with_the_noun_that_it_means():
    genders = Counter()
    for sentence in ALL:
        words = data.translate(sentence).split()
        nouns = [word for word, following in pairwise(words) if following in ("lo", "le")]
        subject, place = nouns
        referent = subject if sentence.about_animal else place
        pronoun, adjective = words[-4:-2]
        assert pronoun == "s" + referent[-1]
        assert adjective[-1] == referent[-1]
        assert words[1] == "l" + subject[-1]
        if sentence.modifier:
            assert words[2][-1] == subject[-1]
        genders[subject[-1], place[-1]] += 1
    assert set(genders.values()) == {len(ALL) // 4}, "in half of all sentences the pronoun tells the referent"


def test_words_are_translated_one_to_one():
    """The same word always the same way, up to its gender, and no two words alike."""
    seen: dict[str, set[str]] = {}
    for sentence in ALL:
        words = data.translate(sentence).split()
        for word, translation in {sentence.animal: words[0], sentence.adjective: words[-3][:-1]}.items():
            seen.setdefault(word, set()).add(translation)
    assert all(len(translations) == 1 for translations in seen.values())
    assert (
        len({next(iter(t)) for t in seen.values()})
        == len(seen)
        == 12 + 6 + len({a for kind in KINDS for a in kind.adjectives})
    )


def test_a_translation_batch_has_both_sides():
    batch = data.translation_batch(TWO)
    assert [data.VOCABULARY.decode(row) for row in batch.source] == [s.statement for s in TWO]
    assert [data.TARGET_VOCABULARY.decode(row) for row in batch.target] == [data.translate(s) for s in TWO]
    assert (batch.target[:, 0] == BOS).all()
    assert (batch.labels == EOS).any(dim=1).all()
