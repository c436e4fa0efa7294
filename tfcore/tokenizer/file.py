"""The format of Hugging Face's tokenizer.json: what of it changes ids, and what of that is computed here."""

from __future__ import annotations

from typing import Any

from tfcore.tokenizer.words import SPLITS

Json = dict[str, Any]

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
OTHER_BPE = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")
STRIPS = ("single_word", "lstrip", "rstrip")


def check_kind(content: Json) -> None:
    """Refuse a tokenizer that would encode differently here.

    Raises:
        ValueError: names the parts that are of another kind.

    >>> model = {"type": "WordPiece"}
    >>> check_kind({"model": model, "pre_tokenizer": BYTE_LEVEL, "added_tokens": []})
    Traceback (most recent call last):
    ValueError: another kind of model
    """
    model = content["model"]
    as_here = {
        "model": model.get("type", "BPE") == "BPE" and not any(map(model.get, OTHER_BPE)),
        "normalizer": content.get("normalizer") is None,
        "pre_tokenizer": split_in(content.get("pre_tokenizer")) is not None,
        "post_processor": specials_around(content.get("post_processor")) is not None,
        "truncation": content.get("truncation") is None,
        "padding": content.get("padding") is None,
        "added_tokens": not any(token.get(option) for token in content["added_tokens"] for option in STRIPS),
    }
    if different := [name for name, same in as_here.items() if not same]:
        raise ValueError(f"another kind of {' and '.join(different)}")


def split_in(pre_tokenizer: Json | None) -> str | None:
    """Name the way that a file cuts text into words; None where it is not known here.

    >>> split_in(BYTE_LEVEL), split_in({"type": "Whitespace"})
    ('gpt2', None)
    """
    given = pre_tokenizer or {}
    if {"use_regex": True, **given, "trim_offsets": True} == BYTE_LEVEL:
        return "gpt2"
    for name in SPLITS:
        parts = given.get("pretokenizers") or []
        if len(parts) == 2 and [_plain(part) for part in parts] == [
            _plain(part) for part in pre_tokenizer_of(name, by_pattern=True)["pretokenizers"]
        ]:
            return name
    return None


def _plain(part: Json) -> Json:
    return {"use_regex": True, "invert": False, **part, "trim_offsets": True}


def pre_tokenizer_of(split: str, by_pattern: bool = False) -> Json:
    """Describe a way to cut; GPT-2's is a part of the library.

    >>> pre_tokenizer_of("gpt4")["pretokenizers"][1]["use_regex"]
    False
    """
    if split == "gpt2" and not by_pattern:
        return BYTE_LEVEL
    pattern = {"type": "Split", "pattern": {"Regex": SPLITS[split]}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [pattern, {**BYTE_LEVEL, "use_regex": False}]}


def specials_around(post_processor: Json | None) -> tuple[list[str], list[str]] | None:
    """Name the special tokens that a file puts before and behind a text; None where it does more than that.

    >>> specials_around({"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2]})
    (['<s>'], ['</s>'])
    """
    if post_processor is None or post_processor["type"] == "ByteLevel":
        return [], []
    if post_processor["type"] in ("RobertaProcessing", "BertProcessing"):
        return [post_processor["cls"][0]], [post_processor["sep"][0]]
    if post_processor["type"] == "Sequence":
        around = [specials_around(part) for part in post_processor["processors"]]
        known = [one for one in around if one is not None]
        busy = [one for one in known if one != ([], [])]
        return (busy or [([], [])])[0] if len(known) == len(around) and len(busy) < 2 else None
    if post_processor["type"] == "TemplateProcessing":
        pieces = post_processor["single"]
        (text,) = (i for i, piece in enumerate(pieces) if "Sequence" in piece)
        before, behind = pieces[:text], pieces[text + 1 :]
        tokens = {name: given["tokens"] for name, given in post_processor["special_tokens"].items()}
        one, other = (
            [token for piece in side for token in tokens[piece["SpecialToken"]["id"]]]
            for side in (before, behind)
        )
        return one, other
    return None


def post_processor_of(before: list[str], behind: list[str], ids: dict[str, int]) -> Json | None:
    """Describe the special tokens around a text.

    >>> post_processor_of([], [], {}) is None
    True
    """
    if not before and not behind:
        return None

    def piece(kind: str, name: str) -> Json:
        return {kind: {"id": name, "type_id": 0}}

    one = [*(piece("SpecialToken", t) for t in before), piece("Sequence", "A")]
    one += [piece("SpecialToken", t) for t in behind]
    two = [*one, {"Sequence": {"id": "B", "type_id": 1}}]
    special = {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in dict.fromkeys([*before, *behind])}
    return {"type": "TemplateProcessing", "single": one, "pair": two, "special_tokens": special}
