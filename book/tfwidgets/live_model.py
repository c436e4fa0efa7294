"""The capstone's model, live: a text, what the model expects after each token, and what its heads attend to.

The weights are part of the state: the page trains the model and hands it over by ``:data:``. `compute` is
what the widget must agree with; `picture` is what is seen where no JavaScript runs.
"""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from tfcore import viz
from tfcore.config import AttentionConfig, BlockConfig, ModelConfig, PositionConfig
from tfcore.data import BOS, WordVocabulary
from tfcore.interventions import ablate, attention_maps
from tfcore.models import Decoder

TIRED = "the old camel didn't cross the road because it was too tired . what was tired ? the"
STATE: dict[str, Any] = {
    "text": TIRED,
    "place": 18,  # the token whose successor is asked for; <bos> is at 0
    "layer": 0,
    "head": 0,  # of the map that is enlarged
    "silenced": [],  # pairs of layer and head
    "temperature": 1.0,
    "model": None,  # words, sizes and weights (float16, in base64)
}


@lru_cache(maxsize=4)
def _decoder(weights: str, vocab_size: int, sizes: tuple[int, ...]) -> Decoder:
    d_model, num_heads, num_layers, max_len = sizes
    attention = AttentionConfig(d_model, num_heads)
    block = BlockConfig(attention, d_ff=4 * d_model, activation="gelu_tanh")
    model = Decoder(ModelConfig(vocab_size, num_layers, block, PositionConfig("learned", max_len))).double()
    numbers = np.frombuffer(base64.b64decode(weights), "<f2").astype(np.float64)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(numbers), model.parameters())
    return model.eval()


def decoder(packed: dict[str, Any]) -> Decoder:
    """The model that the page has packed, in float64."""
    sizes = tuple(packed[name] for name in ("d_model", "num_heads", "num_layers", "max_len"))
    return _decoder(packed["weights"], len(packed["words"]), sizes)


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Ids, probabilities of all words after the place, the enlarged map, and the place's row in all maps."""
    vocabulary = WordVocabulary(state["model"]["words"][3:])
    tokens = [BOS, *vocabulary.encode(state["text"])]
    model = decoder(state["model"])
    with torch.no_grad(), ablate(model, state["silenced"]):
        ids = torch.tensor([tokens])
        maps = attention_maps(model, ids)[:, 0]
        logits = model(ids)[0, state["place"]]
    return {
        "tokens": tokens,
        "probabilities": (logits / state["temperature"]).softmax(-1).tolist(),
        "map": maps[state["layer"], state["head"]].tolist(),
        "rows": maps[:, :, state["place"]].tolist(),
    }


def picture(state: dict[str, Any]) -> Figure:
    """What is likely after the place, and the maps of all heads."""
    numbers = compute(state)
    packed = state["model"]
    probabilities = np.array(numbers["probabilities"])
    layers, heads = packed["num_layers"], packed["num_heads"]
    figure = Figure(figsize=(4.6, 5.6))
    above, below = figure.subfigures(2, 1, height_ratios=(1, 1.35))
    axes = above.subplots()
    best = np.argsort(-probabilities)[:6][::-1]
    axes.barh([packed["words"][i] for i in best], probabilities[best], color=viz.BLUE)
    words = [packed["words"][i] for i in numbers["tokens"]]
    axes.set(xlim=(0, 1), xlabel="probability", title=f"after “… {' '.join(words[-6:])}”")
    for layer in range(layers):
        for head in range(heads):
            axes = below.add_subplot(layers, heads, layer * heads + head + 1)
            one = compute({**state, "layer": layer, "head": head})["map"]
            axes.imshow(one, cmap=viz.WEIGHTS, vmin=0, vmax=1)
            axes.set(xticks=[], yticks=[])
            axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=8, loc="center")
    return figure
