"""MiniLM in the page: the maps of its 72 heads for the reader's own sentence, and the effect of a cut.

The model is a file beside the page, which is loaded on a click; `file` writes it and `compute` reads the same
bytes. In a notebook there is no such file: ``show("real_heads")`` then shows a sentence that says so.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from tfcore import viz, zoo
from tfcore.interventions import ablate, attention_maps
from tfwidgets import model_file

STATE: dict[str, Any] = {
    "text": "The animal didn't cross the street because it was too tired.",
    "other": "The animal didn't cross the street because it was too wide.",
    "place": 10,  # the token whose row is shown; [CLS] is at 0
    "layer": 3,
    "head": 1,  # of the map that is enlarged; layers and heads count from 0
    "silenced": [],  # pairs of layer and head
    "jobs": {},  # what the page has measured: {"3.1": ["previous token", 0.93]}
    "name": "MiniLM",
    "source": "minilm-l6",  # a model that `tfcore.zoo` loads, or the path of a model file
}
GAP = 2  # empty columns between the maps of the picture


@lru_cache(maxsize=2)
def _content(source: str) -> bytes:
    return model_file.write(*zoo.load(source)) if source in zoo.MODELS else Path(source).read_bytes()


@lru_cache(maxsize=2)
def _model(source: str) -> tuple[Any, Any]:
    return model_file.read(_content(source))


def file(state: dict[str, Any]) -> bytes:
    """Return the file that the page loads on a click."""
    return _content(state["source"])


def _cosine(one: Tensor, other: Tensor) -> float:
    return torch.cosine_similarity(one, other, dim=0).item()


def analyse(state: dict[str, Any]) -> dict[str, Any]:
    """Return the tokens, all maps, and the cosines between the vectors of the sentences, cut and uncut."""
    model, tokenizer = _model(state["source"])
    encoded = [tokenizer.encode(state[name]) for name in ("text", "other")]
    ids = [torch.tensor([text.ids]) for text in encoded]
    with torch.no_grad():
        whole = [model(tokens)[0].mean(0) for tokens in ids]  # (d_model,)
        with ablate(model, state["silenced"]):
            cut = [model(tokens)[0].mean(0) for tokens in ids]
            maps = attention_maps(model, ids[0])[:, 0]  # (layers, heads, T, T)
    return {
        "tokens": encoded[0].ids,
        "names": encoded[0].tokens,
        "maps": maps,
        "similarity": [_cosine(*whole), _cosine(*cut)],
        "kept": _cosine(whole[0], cut[0]),
    }


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Return ids, the enlarged map, the place's row in all maps, and the three cosines."""
    found = analyse(state)
    return {
        "tokens": found["tokens"],
        "map": found["maps"][state["layer"], state["head"]].tolist(),
        "rows": found["maps"][:, :, state["place"]].tolist(),
        "similarity": found["similarity"],
        "kept": found["kept"],
    }


def picture(state: dict[str, Any]) -> Figure:
    """Draw the maps of all heads as one image, a row for each layer."""
    maps = analyse(state)["maps"].numpy()
    layers, heads, size, _ = maps.shape
    step = size + GAP
    board = np.full((layers * step - GAP, heads * step - GAP), np.nan)
    for layer in range(layers):
        for head in range(heads):
            board[layer * step :, head * step :][:size, :size] = maps[layer, head].round(1)  # a smaller file
    figure = Figure(figsize=(6.2, 0.4 + 6.2 * layers / heads))
    axes = figure.subplots()
    axes.imshow(board, cmap=viz.WEIGHTS, vmin=0, vmax=1, interpolation="none")
    middle = (size - 1) / 2
    axes.set_xticks(middle + step * np.arange(heads), range(heads))
    axes.set_yticks(middle + step * np.arange(layers), range(layers))
    axes.set(xlabel="head", ylabel="layer")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure
