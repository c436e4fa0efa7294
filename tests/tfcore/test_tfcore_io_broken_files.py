"""Files that are broken, missing or of another model are refused with what does not fit."""

from __future__ import annotations

import json
import re

import pytest
import tiny_checkpoints as tiny
from saved_checkpoints import rewrite, same_as
from tiny_checkpoints import checkpoint

from tfcore.io import from_pretrained


@pytest.mark.slow
def test_all_that_does_not_fit_is_named_at_once(tmp_path):
    folder = rewrite(
        tiny.folder("gpt2"),
        tmp_path,
        drop=["transformer.ln_f.bias", "transformer.h.1.mlp.c_fc.weight"],
        shape={"transformer.h.2.ln_1.bias": (24,), "transformer.wpe.weight": (28, 24)},
    )
    with pytest.raises(ValueError, match="got 4 in") as error:
        from_pretrained(folder)
    for line in (
        "missing: transformer.ln_f.bias (24,)",
        "missing: transformer.h.1.mlp.c_fc.weight (24, 40)",
        "unexpected: transformer.h.2.ln_1.bias (24,)",
        "misshapen: transformer.wpe.weight (28, 24), expected (29, 24)",
    ):
        assert line in str(error.value)


def test_one_tensor_under_two_names_is_unexpected_and_a_copy_that_differs_too(tmp_path):
    twice = rewrite(tiny.folder("gpt2"), tmp_path / "a", shape={"wpe.weight": (29, 24)})
    with pytest.raises(ValueError, match=r"unexpected: (transformer[.])?wpe.weight"):
        from_pretrained(twice)
    other = rewrite(tiny.folder("t5"), tmp_path / "b", shape={"encoder.embed_tokens.weight": (53, 24)})
    with pytest.raises(ValueError, match=r"different: encoder.embed_tokens.weight.* copy of shared.weight"):
        from_pretrained(other)


def test_a_head_that_is_not_tied_must_be_there(tmp_path):
    folder = rewrite(tiny.folder("llama"), tmp_path, drop=["lm_head.weight"])
    with pytest.raises(ValueError, match=r"missing: lm_head.weight \(53, 24\)"):
        from_pretrained(folder)


@pytest.mark.parametrize("keep", [0, 5, 300, -1])
def test_truncated_weights(keep, tmp_path):
    folder = rewrite(tiny.folder("gpt2"), tmp_path)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match="expected a whole safetensors file") as error:
        from_pretrained(folder)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("text", ['{"n_embd": 24,', "[1, 2]", "", "\ufeff{}"])
def test_wrong_json(text, tmp_path):
    folder = rewrite(tiny.folder("gpt2"), tmp_path)
    (folder / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"expected .*json.* in .*config\.json"):
        from_pretrained(folder)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected config\.json in"):
        from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text((tiny.folder("gpt2") / "config.json").read_text())
    with pytest.raises(FileNotFoundError, match=r"expected model\.safetensors or .*index\.json.*neither"):
        from_pretrained(tmp_path)
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(FileNotFoundError, match=r"got pytorch_model\.bin; only safetensors are read"):
        from_pretrained(tmp_path)


def test_shards_that_are_lost_or_wrong(tmp_path):
    checkpoint("gpt2").theirs.save_pretrained(tmp_path, max_shard_size="10KB")
    index = tmp_path / "model.safetensors.index.json"
    listed = json.loads(index.read_text())
    shard = listed["weight_map"]["transformer.wte.weight"]

    other = {**listed["weight_map"], "transformer.lost": shard}
    index.write_text(json.dumps({"weight_map": other}))
    with pytest.raises(ValueError, match=r"expected transformer\.lost in .*" + re.escape(shard)):
        from_pretrained(tmp_path)

    for wrong in ({}, {"weight_map": {"a": "../model.safetensors"}}, {"weight_map": {"a": 3}}):
        index.write_text(json.dumps(wrong))
        with pytest.raises(ValueError, match="expected a weight_map"):
            from_pretrained(tmp_path)

    index.write_text(json.dumps(listed))
    (tmp_path / shard).unlink()
    with pytest.raises(FileNotFoundError, match=r"expected all files that .* got no .*" + re.escape(shard)):
        from_pretrained(tmp_path)


def test_the_hub(tmp_path, monkeypatch):
    import huggingface_hub

    asked = {}

    def snapshot_download(name, allow_patterns):
        asked.update(name=name, patterns=allow_patterns)
        return str(tiny.folder("gpt2"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    monkeypatch.chdir(tmp_path)
    assert same_as("gpt2", from_pretrained("openai-community/gpt2"))
    assert asked["name"] == "openai-community/gpt2"
    assert all(pattern.endswith((".json", ".safetensors")) for pattern in asked["patterns"])


def test_no_network(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConnectionError, match=r"no such folder.*huggingface\.co failed") as error:
        from_pretrained("nobody/nothing")
    assert "local folder that holds config.json and model.safetensors" in str(error.value)
    for name in ("./nothing", "/no/such/folder", "a/b/c"):
        with pytest.raises(FileNotFoundError, match="expected"):
            from_pretrained(name)


@pytest.mark.parametrize("name", ["", None, 7])
def test_no_name_is_no_folder(name, monkeypatch):
    monkeypatch.chdir(tiny.folder("gpt2"))
    with pytest.raises(ValueError, match=rf"expected a folder or a name .*, got {name!r}; give '\.'"):
        from_pretrained(name)
    assert same_as("gpt2", from_pretrained("."))
