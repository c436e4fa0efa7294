"""tokenizer.json: written, read, and refused where it would encode differently here."""

from __future__ import annotations

import json
import os

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from test_tfcore_tokenizer import TEXTS
from tokenizer_texts import NASTY, TEXT, TOKENIZER, changed

from tfcore.tokenizer import SPLITS, BPETokenizer


def test_a_file_comes_back(tmp_path):
    TOKENIZER.save(tmp_path / "tokenizer.json")
    again = BPETokenizer.load(tmp_path / "tokenizer.json")
    for name in ("vocab", "merges", "special_tokens", "vocab_size"):
        assert getattr(again, name) == getattr(TOKENIZER, name)
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert library.get_vocab_size() == TOKENIZER.vocab_size
    library.save(str(tmp_path / "again.json"))
    assert BPETokenizer.load(tmp_path / "again.json").merges == TOKENIZER.merges


def test_a_file_that_the_library_trained_is_read(tmp_path):
    library = tokenizers.ByteLevelBPETokenizer()
    library.train_from_iterator([TEXT], vocab_size=400, special_tokens=["<s>", "</s>"], show_progress=False)
    library.save(str(tmp_path / "tokenizer.json"))
    tokenizer = BPETokenizer.load(tmp_path / "tokenizer.json")
    assert tokenizer.special_tokens == {"<s>": 0, "</s>": 1}
    assert tokenizer.encode(TEXT + "</s>") == library.encode(TEXT + "</s>").ids


@pytest.mark.slow
def test_gpt2s_tokenizer_in_transformers_encodes_the_same(tmp_path):
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import GPT2Tokenizer, PreTrainedTokenizerFast

    ours = BPETokenizer.train(TEXT, 400, ["<|endoftext|>"])
    ours.save(tmp_path / "tokenizer.json")
    model = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2" / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
    merges = "\n".join(["#version: 0.2", *(f"{a} {b}" for a, b in model["merges"])])
    (tmp_path / "gpt2" / "merges.txt").write_text(merges, encoding="utf-8")
    theirs = GPT2Tokenizer.from_pretrained(tmp_path / "gpt2")
    by_json = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))

    @given(TEXTS, st.booleans())
    def same(text, end):
        text += "<|endoftext|>" * end
        assert ours.encode(text) == theirs.encode(text) == by_json.encode(text)
        assert theirs.decode(ours.encode(text), clean_up_tokenization_spaces=False) == text

    same()


BEGIN, END = "<|end|>", "[x]"
AROUND = {
    "none": (None, ([], [])),
    "byte level": ({"type": "ByteLevel", "trim_offsets": False, "add_prefix_space": True}, ([], [])),
    "roberta": (
        {
            "type": "RobertaProcessing",
            "cls": [BEGIN, TOKENIZER.special_tokens[BEGIN]],
            "sep": [END, TOKENIZER.special_tokens[END]],
            "trim_offsets": True,
            "add_prefix_space": False,
        },
        ([BEGIN], [END]),
    ),
    "a template": (
        {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": BEGIN, "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {
                BEGIN: {"id": BEGIN, "ids": [TOKENIZER.special_tokens[BEGIN]], "tokens": [BEGIN]}
            },
        },
        ([BEGIN], []),
    ),
}
AROUND["a sequence, as in Llama 3"] = (
    {"type": "Sequence", "processors": [AROUND["byte level"][0], AROUND["a template"][0]]},
    ([BEGIN], []),
)


@pytest.mark.parametrize("name", AROUND)
def test_special_tokens_around_a_text_are_the_librarys(name, tmp_path):
    given_, around = AROUND[name]
    path = tmp_path / "tokenizer.json"
    path.write_text(changed(post_processor=given_), encoding="utf-8")
    ours, theirs = BPETokenizer.load(path), tokenizers.Tokenizer.from_file(str(path))
    assert ours.around == around
    for text in ("the cat's mat", "", f"a{END}b"):
        assert ours.encode(text) == theirs.encode(text).ids
        assert ours.encode(text, add_special=False) == theirs.encode(text, add_special_tokens=False).ids
    ours.save(tmp_path / "again.json")
    assert BPETokenizer.load(tmp_path / "again.json").around == around
    assert tokenizers.Tokenizer.from_file(str(tmp_path / "again.json")).encode("cat").ids == ours.encode(
        "cat"
    )


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("whole_words", [False, True])
def test_a_file_with_another_split_comes_back(split, whole_words, tmp_path):
    trained = BPETokenizer.train(TEXT, 400, split=split)
    vocab = {**trained.vocab, b" zq": 400}  # a word that no merge makes
    ours = BPETokenizer(vocab, trained.merges, split=split, whole_words=whole_words)
    ours.save(tmp_path / "tokenizer.json")
    again, fast = BPETokenizer.load(tmp_path / "tokenizer.json"), ours.fast()
    assert (again.split, again.whole_words) == (split, whole_words)
    for text in [TEXT, *NASTY]:
        assert again.encode(text) == ours.encode(text) == fast.encode(text).ids
    assert (400 in ours.encode("on a zq")) == whole_words


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "Expecting value"),
        (changed()[:900], "JSONDecodeError"),
        ("[]", "list indices"),
        ("{}", "'model'"),
        (changed(normalizer={"type": "NFC"}), "another kind of normalizer"),
        (changed(pre_tokenizer=None), "another kind of pre_tokenizer"),
        (changed(pre_tokenizer={"type": "Whitespace"}), "another kind of pre_tokenizer"),
        (changed(pre_tokenizer__add_prefix_space=True), "another kind of pre_tokenizer"),
        (changed(pre_tokenizer__use_regex=False), "another kind of pre_tokenizer"),
        (changed(model__type="WordPiece"), "another kind of model"),
        (changed(model__byte_fallback=True), "another kind of model"),
        (changed(post_processor={"type": "Other"}), "another kind of post_processor"),
        (changed(added_tokens__0__lstrip=True), "another kind of added_tokens"),
        (changed(truncation={"max_length": 2}), "another kind of truncation"),
        (changed(padding={"pad_id": 0}), "another kind of padding"),
        (changed(model__merges=["a b c"]), "too many values"),
        (changed(model__merges=[["日", "本"]]), "'日'"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path, content, message):
    path = tmp_path / "tokenizer.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=f"{path}.*{message}"):
        BPETokenizer.load(path)
