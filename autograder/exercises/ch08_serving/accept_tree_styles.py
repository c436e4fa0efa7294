"""Right answers to `accept_tree`, each in a style of its own."""

from __future__ import annotations

import torch

from autograder.exercises.ch08_serving.accept_tree import EXERCISE


@EXERCISE.style("one walk over the nodes, which skips those whose parent was not accepted last")
def one_walk(p_target, p_draft, tokens, parents, u):
    path, here, t = [], -1, p_target[0]
    for i in range(len(tokens)):
        if parents[i] != here:
            continue
        x = tokens[i]
        if u[i] * p_draft[i, x] < t[x]:
            path.append(i)
            here, t = i, p_target[i + 1]
        else:
            rest = (t - p_draft[i]).clamp(min=0)
            t = rest / rest.sum()
    return path, t


@EXERCISE.style("node by node: a loop over the children, left by break or else")
def children_of_a_node(p_target, p_draft, tokens, parents, u):
    path, here = [], -1
    while True:
        t = p_target[here + 1]
        for child in torch.nonzero(parents == here).flatten().tolist():
            ratio = t[tokens[child]] / p_draft[child, tokens[child]]
            if u[child] < ratio:
                path.append(child)
                here = child
                break
            t = torch.relu(t - p_draft[child])
            t = t / t.sum()
        else:
            return path, t


@EXERCISE.style("by recursion, from a node to its accepted child")
def by_recursion(p_target, p_draft, tokens, parents, u):
    def below(here):
        t = p_target[here + 1].clone()
        for child in range(here + 1, len(tokens)):
            if int(parents[child]) != here:
                continue
            x = int(tokens[child])
            if float(u[child]) <= float(t[x] / p_draft[child, x]):
                path, following = below(child)
                return [child, *path], following
            t = torch.maximum(t, p_draft[child]) - p_draft[child]
            t /= t.sum(-1, keepdim=True)
        return [], t

    return below(-1)


@EXERCISE.style("plain numbers, with a list of children for each node")
def plain_numbers(p_target, p_draft, tokens, parents, u):
    children = {}
    for node, parent in enumerate(parents.tolist()):
        children.setdefault(parent, []).append(node)
    drafts, chosen, draws = p_draft.tolist(), tokens.tolist(), u.tolist()
    path, t = [], p_target[0].tolist()
    queue = children.get(-1, [])
    while queue:
        node, queue = queue[0], queue[1:]
        x, q = chosen[node], drafts[node]
        if draws[node] < t[x] / q[x]:
            path.append(node)
            t, queue = p_target[node + 1].tolist(), children.get(node, [])
        else:
            rest = [max(a - b, 0.0) for a, b in zip(t, q, strict=True)]
            t = [a / sum(rest) for a in rest]
    return tuple(path), p_target.new_tensor(t)


@EXERCISE.style("in logarithms; the path as a tensor; the last normalisation at the end")
def in_logarithms(p_target, p_draft, tokens, parents, u):
    path = torch.zeros(0, dtype=torch.long, device=tokens.device)
    node = torch.tensor(-1, device=tokens.device)
    rest = p_target[0]
    for i in torch.arange(len(tokens), device=tokens.device):
        if parents[i] == node:
            x = tokens[i]
            target = torch.log(rest[x]) - torch.log(rest.sum())
            if torch.log(u[i]) < target - torch.log(p_draft[i, x]):
                path = torch.cat([path, i[None]])
                node, rest = i, p_target[i + 1]
            else:
                rest = torch.where(rest / rest.sum() > p_draft[i], rest / rest.sum() - p_draft[i], 0.0)
    return path, rest / rest.sum()
