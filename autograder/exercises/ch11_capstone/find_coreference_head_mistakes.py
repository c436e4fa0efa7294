"""Mistakes that people make in `find_coreference_head`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

import torch

from autograder.checking.edits import wrong
from autograder.exercises.ch11_capstone.find_coreference_head import EXERCISE
from autograder.exercises.ch11_capstone.find_coreference_head_styles import a_table

edited = partial(wrong, EXERCISE, a_table)


@EXERCISE.misconception(
    "You return the head that attends most to the referent. A head may look there and do nothing with it: "
    "silence each head and see what is lost."
)
def largest_weight(model, sentences):
    weights = torch.zeros(model.num_layers, model.num_heads)
    for tokens, referent in sentences:
        place = tokens.tolist().index(referent)
        weights += model.attention(tokens[None])[:, 0, :, -1, place]
    return divmod(int(weights.argmax()), model.num_heads)


@EXERCISE.misconception(
    "You return (head, layer). Return the layer first.",
    gravity="slip",
)
def head_then_layer(model, sentences):
    costs = torch.zeros(model.num_heads, model.num_layers)
    for tokens, referent in sentences:
        whole = model(tokens[None])[0, -1].log_softmax(dim=-1)[referent]
        for layer in range(model.num_layers):
            for head in range(model.num_heads):
                logits = model(tokens[None], silenced=[(layer, head)])[0, -1]
                costs[head, layer] += whole - logits.log_softmax(dim=-1)[referent]
    return divmod(int(costs.argmax()), model.num_layers)


@EXERCISE.misconception(
    "The place in the flat table is divided by the number of layers. A row of the table has num_heads "
    "entries: divmod(place, model.num_heads).",
    gravity="slip",
)
def rows_of_wrong_length(model, sentences):
    costs = torch.zeros(model.num_layers, model.num_heads)
    for tokens, referent in sentences:
        whole = model(tokens[None])[0, -1].log_softmax(dim=-1)[referent]
        for layer in range(model.num_layers):
            for head in range(model.num_heads):
                logits = model(tokens[None], silenced=[(layer, head)])[0, -1]
                costs[layer, head] += whole - logits.log_softmax(dim=-1)[referent]
    return divmod(int(costs.argmax()), model.num_layers)


@EXERCISE.misconception(
    "You return the head whose silence helps most. The cost is the log-probability with all heads minus the "
    "one without this head: take the largest cost."
)
def the_one_that_helps(model, sentences):
    costs = torch.zeros(model.num_layers, model.num_heads)
    for tokens, referent in sentences:
        whole = model(tokens[None])[0, -1].log_softmax(dim=-1)[referent]
        for layer in range(model.num_layers):
            for head in range(model.num_heads):
                logits = model(tokens[None], silenced=[(layer, head)])[0, -1]
                costs[layer, head] += logits.log_softmax(dim=-1)[referent] - whole
    return divmod(int(costs.argmax()), model.num_heads)


@EXERCISE.misconception(
    "You return the head whose silence changes most, whichever way. A head without which the referent is "
    "likelier does harm: take the largest fall, without abs()."
)
def any_change(model, sentences):
    costs = torch.zeros(model.num_layers, model.num_heads)
    for tokens, referent in sentences:
        whole = model(tokens[None])[0, -1].log_softmax(dim=-1)[referent]
        for layer in range(model.num_layers):
            for head in range(model.num_heads):
                logits = model(tokens[None], silenced=[(layer, head)])[0, -1]
                costs[layer, head] += (whole - logits.log_softmax(dim=-1)[referent]).abs()
    return divmod(int(costs.argmax()), model.num_heads)


@EXERCISE.misconception(
    "You compare logits. Silencing a head may lower all logits alike, which changes no probability: take "
    "log_softmax first."
)
def raw_logits(model, sentences):
    costs = torch.zeros(model.num_layers, model.num_heads)
    for tokens, referent in sentences:
        whole = model(tokens[None])[0, -1, referent]
        for layer in range(model.num_layers):
            for head in range(model.num_heads):
                costs[layer, head] += whole - model(tokens[None], silenced=[(layer, head)])[0, -1, referent]
    return divmod(int(costs.argmax()), model.num_heads)


@EXERCISE.misconception(
    "You compare probabilities. A fall from 0.05 to 0.001 hardly counts there, yet it is a factor of fifty: "
    "take the log-probability, log_softmax."
)
def probabilities(model, sentences):
    costs = torch.zeros(model.num_layers, model.num_heads)
    for tokens, referent in sentences:
        whole = model(tokens[None])[0, -1].softmax(dim=-1)[referent]
        for layer in range(model.num_layers):
            for head in range(model.num_heads):
                logits = model(tokens[None], silenced=[(layer, head)])[0, -1]
                costs[layer, head] += whole - logits.softmax(dim=-1)[referent]
    return divmod(int(costs.argmax()), model.num_heads)


@EXERCISE.misconception(
    "You count the answers that become wrong. Several heads may change equally many, and a head that nearly "
    "changes all of them is missed: take the log-probability."
)
def wrong_answers(model, sentences):
    wrong = torch.zeros(model.num_layers, model.num_heads)
    for tokens, referent in sentences:
        for layer in range(model.num_layers):
            for head in range(model.num_heads):
                logits = model(tokens[None], silenced=[(layer, head)])[0, -1]
                wrong[layer, head] += logits.argmax() != referent
    return divmod(int(wrong.argmax()), model.num_heads)


@EXERCISE.misconception(
    "You read the logits at the referent's place, where the model predicts the word after it. Read them at "
    "the last place, where the answer is predicted: [0, -1]."
)
def logits_at_the_noun(model, sentences):
    costs = torch.zeros(model.num_layers, model.num_heads)
    for tokens, referent in sentences:
        place = tokens.tolist().index(referent)
        whole = model(tokens[None])[0, place].log_softmax(dim=-1)[referent]
        for layer in range(model.num_layers):
            for head in range(model.num_heads):
                logits = model(tokens[None], silenced=[(layer, head)])[0, place]
                costs[layer, head] += whole - logits.log_softmax(dim=-1)[referent]
    return divmod(int(costs.argmax()), model.num_heads)


@EXERCISE.misconception(
    "You take the mean over all places. Only the last place predicts the referent; elsewhere another word "
    "comes next: read [0, -1]."
)
def all_places(model, sentences):
    costs = torch.zeros(model.num_layers, model.num_heads)
    for tokens, referent in sentences:
        whole = model(tokens[None])[0].log_softmax(dim=-1)[:, referent].mean()
        for layer in range(model.num_layers):
            for head in range(model.num_heads):
                logits = model(tokens[None], silenced=[(layer, head)])[0]
                costs[layer, head] += whole - logits.log_softmax(dim=-1)[:, referent].mean()
    return divmod(int(costs.argmax()), model.num_heads)


@EXERCISE.misconception(
    "You keep each head's largest cost, so one odd sentence may decide. Add up the costs of all sentences, "
    "or take their mean."
)
def one_odd_sentence(model, sentences):
    costs = torch.full((model.num_layers, model.num_heads), -torch.inf)
    for tokens, referent in sentences:
        whole = model(tokens[None])[0, -1].log_softmax(dim=-1)[referent]
        for layer in range(model.num_layers):
            for head in range(model.num_heads):
                logits = model(tokens[None], silenced=[(layer, head)])[0, -1]
                cost = whole - logits.log_softmax(dim=-1)[referent]
                costs[layer, head] = max(costs[layer, head], cost)
    return divmod(int(costs.argmax()), model.num_heads)


@EXERCISE.misconception("The first sentence alone decides. Go through all of them and add up their costs.")
def first_sentence(model, sentences):
    tokens, referent = sentences[0]
    costs = torch.zeros(model.num_layers, model.num_heads)
    whole = model(tokens[None])[0, -1].log_softmax(dim=-1)[referent]
    for layer in range(model.num_layers):
        for head in range(model.num_heads):
            logits = model(tokens[None], silenced=[(layer, head)])[0, -1]
            costs[layer, head] = whole - logits.log_softmax(dim=-1)[referent]
    return divmod(int(costs.argmax()), model.num_heads)


@EXERCISE.misconception(
    "The last sentence alone decides: each overwrites the costs of the one before. Add them up: costs[layer, "
    "head] += ..."
)
def last_sentence(model, sentences):
    costs = torch.zeros(model.num_layers, model.num_heads)
    for tokens, referent in sentences:
        whole = model(tokens[None])[0, -1].log_softmax(dim=-1)[referent]
        for layer in range(model.num_layers):
            for head in range(model.num_heads):
                logits = model(tokens[None], silenced=[(layer, head)])[0, -1]
                costs[layer, head] = whole - logits.log_softmax(dim=-1)[referent]
    return divmod(int(costs.argmax()), model.num_heads)


@EXERCISE.misconception(
    "All heads of a layer are silenced together, so its heads cannot be told apart. Silence one head at a "
    "time: silenced=[(layer, head)]."
)
def the_whole_layer(model, sentences):
    costs = torch.zeros(model.num_layers, model.num_heads)
    for tokens, referent in sentences:
        whole = model(tokens[None])[0, -1].log_softmax(dim=-1)[referent]
        for layer in range(model.num_layers):
            heads = [(layer, head) for head in range(model.num_heads)]
            logits = model(tokens[None], silenced=heads)[0, -1]
            costs[layer] += whole - logits.log_softmax(dim=-1)[referent]
    return divmod(int(costs.argmax()), model.num_heads)


@EXERCISE.misconception(
    "Heads that were silenced stay silent when the next one is tried. Start each run from all heads: "
    "silenced=[(layer, head)], one pair."
)
def more_and_more_silent(model, sentences):
    costs = torch.zeros(model.num_layers, model.num_heads)
    for tokens, referent in sentences:
        whole = model(tokens[None])[0, -1].log_softmax(dim=-1)[referent]
        silenced = []
        for layer in range(model.num_layers):
            for head in range(model.num_heads):
                silenced.append((layer, head))
                logits = model(tokens[None], silenced=silenced)[0, -1]
                costs[layer, head] += whole - logits.log_softmax(dim=-1)[referent]
    return divmod(int(costs.argmax()), model.num_heads)


edited(
    "searched_from_zero",
    "When every head has a negative mean cost, you find none, as when a search starts at a cost of 0. Start "
    "at minus infinity, or take the largest entry of the whole table.",
    {"return divmod": "return None if costs.max() <= 0 else divmod"},
)

edited(
    "first_place",
    "You read the first place of a sentence. The model answers at the last place: logits[0, -1].",
    {
        "whole = model(tokens[None])[0, -1]": "whole = model(tokens[None])[0, 0]",
        "head)])[0, -1]": "head)])[0, 0]",
    },
)

edited(
    "normalised_over_places",
    "Your probabilities sum to 1 over the places of the sentence. Take log_softmax over the vocabulary, the "
    "last axis of the logits.",
    {
        "[0, -1].log_softmax(dim=-1)[referent]": "[0].log_softmax(dim=0)[-1, referent]",
        "head)])[0, -1]": "head)])[0]",
        "logits.log_softmax(dim=-1)[referent]": "logits.log_softmax(dim=0)[-1, referent]",
    },
)

edited(
    "counted_from_1",
    "You count layers and heads from 1. Count from 0, as `silenced` does.",
    {
        "return divmod(int(costs.argmax()), model.num_heads)": "return tuple(i + 1 for i in divmod(int("
        "costs.argmax()), model.num_heads))"
    },
    gravity="slip",
)
