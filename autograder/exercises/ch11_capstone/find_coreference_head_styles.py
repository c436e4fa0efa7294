"""Right answers to `find_coreference_head`, each in a style of its own."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from autograder.exercises.ch11_capstone.find_coreference_head import EXERCISE


@EXERCISE.style("a table of costs, added up sentence by sentence")
def a_table(model, sentences):
    costs = torch.zeros(model.num_layers, model.num_heads)
    for tokens, referent in sentences:
        whole = model(tokens[None])[0, -1].log_softmax(dim=-1)[referent]
        for layer in range(model.num_layers):
            for head in range(model.num_heads):
                logits = model(tokens[None], silenced=[(layer, head)])[0, -1]
                costs[layer, head] += whole - logits.log_softmax(dim=-1)[referent]
    return divmod(int(costs.argmax()), model.num_heads)


@EXERCISE.style("the smallest log-probability without a head, since its value with all heads is a constant")
def the_least_that_is_left(model, sentences):
    def left(pair):
        return sum(
            float(model(tokens[None], [pair])[0, -1].log_softmax(dim=-1)[referent])
            for tokens, referent in sentences
        )

    pairs = [(layer, head) for layer in range(model.num_layers) for head in range(model.num_heads)]
    return min(pairs, key=left)


@EXERCISE.style("cross-entropy as the cost, the largest mean loss kept on the way")
def cross_entropy(model, sentences):
    best, worst = None, -math.inf
    for layer in range(model.num_layers):
        for head in range(model.num_heads):
            losses = []
            for tokens, referent in sentences:
                logits = model(tokens.unsqueeze(0), silenced=((layer, head),))
                losses.append(
                    F.cross_entropy(logits[:, -1], torch.tensor([referent], device=logits.device)).item()
                )
            if np.mean(losses) > worst:
                best, worst = (layer, head), np.mean(losses)
    return best


@EXERCISE.style("all sentences in one batch, filled up on the right")
def one_batch(model, sentences):
    texts = nn.utils.rnn.pad_sequence([tokens for tokens, _ in sentences], batch_first=True)
    rows = torch.arange(len(sentences))
    last = torch.tensor([len(tokens) - 1 for tokens, _ in sentences])
    referents = torch.tensor([referent for _, referent in sentences])

    def said(silenced):
        return model(texts, silenced=silenced)[rows, last].log_softmax(dim=-1)[rows, referents]

    whole = said([])
    costs = torch.stack(
        [
            torch.stack([(whole - said([(layer, head)])).mean() for head in range(model.num_heads)])
            for layer in range(model.num_layers)
        ]
    )
    return tuple(int(i) for i in torch.unravel_index(costs.argmax(), costs.shape))


@EXERCISE.style("the logarithm of the odds written out, numpy at the end")
def written_out(model, sentences):
    table = np.zeros((len(sentences), model.num_layers, model.num_heads))
    for i, (tokens, referent) in enumerate(sentences):
        for layer, head in np.ndindex(model.num_layers, model.num_heads):
            before, after = (model(tokens[None], silenced=s)[0, -1] for s in ([], [(layer, head)]))
            table[i, layer, head] = (
                before[referent] - before.logsumexp(0) - after[referent] + after.logsumexp(0)
            )
    layer, head = np.unravel_index(table.mean(axis=0).argmax(), table.shape[1:])
    return layer, head
