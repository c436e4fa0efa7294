"""Checkpoints on disk for the tests of files: their tensors, other versions of them, a comparison."""

from __future__ import annotations

import json

import family_specs
import tiny_checkpoints as tiny
import torch
from safetensors.torch import load_file, save_file
from tiny_checkpoints import batch, checkpoint, our_output

from tfcore.io.family import families, family_of_json

NAMES = list(tiny.SPECS)
FAMILIES = {family.name: family for family in families()}
MODELS = {name: family_of_json({"architectures": [spec.model]}).name for name, spec in tiny.SPECS.items()}
FROM_FILES_ALONE = {MODELS[name] for name in family_specs.ROWS}


def tensors(folder):
    return load_file(folder / "model.safetensors")


def rewrite(source, folder, *, rename=lambda name: name, add=(), drop=(), shape=(), **fields):
    """Write a checkpoint anew, with other names, more or fewer tensors, or other fields of config.json."""
    folder.mkdir(exist_ok=True)
    content = {rename(name): x for name, x in tensors(source).items() if name not in drop}
    content |= {name: torch.zeros(size) for name, size in dict(shape).items()}
    content |= {name: x.clone() for name, x in dict(add).items()}
    save_file(content, folder / "model.safetensors", metadata={"format": "pt"})
    config = {**json.loads((source / "config.json").read_text()), **fields}
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not ...}))
    return folder


def same_as(name, model):
    c = checkpoint(name)
    x = batch(c.kind)
    return torch.equal(our_output(model, c.kind, x), our_output(c.ours, c.kind, x))
