"""Mistakes that people make in `accept_tree`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

import torch

from autograder.checking.edits import wrong
from autograder.exercises.ch08_serving.accept_tree import EXERCISE
from autograder.exercises.ch08_serving.accept_tree_styles import children_of_a_node, one_walk

edited = partial(wrong, EXERCISE, one_walk)
among_children = partial(wrong, EXERCISE, children_of_a_node)


@EXERCISE.misconception(
    "You judge each sibling by p_target itself, as if no sibling had been rejected before it. Judge it by t, "
    "the residual that those siblings left: max(t - q, 0), divided by its sum."
)
def siblings_reuse_the_mass(p_target, p_draft, tokens, parents, u):
    path, here, t = [], -1, p_target[0]
    for i in range(len(tokens)):
        if parents[i] != here:
            continue
        x = tokens[i]
        if u[i] * p_draft[i, x] < p_target[here + 1, x]:
            path.append(i)
            here, t = i, p_target[i + 1]
        else:
            rest = (t - p_draft[i]).clamp(min=0)
            t = rest / rest.sum()
    return path, t


edited(
    "only_the_last_residual",
    "Each residual begins at p_target again, so earlier rejected siblings are forgotten. Subtract from what "
    "they have left: t = max(t - q, 0), divided by its sum.",
    {"(t - p_draft[i])": "(p_target[here + 1] - p_draft[i])"},
)

edited(
    "target_after_rejections",
    "After rejections you go on with p_target itself. A rejected guess uses up its share: go on with "
    "max(t - q, 0), divided by its sum.",
    {
        "            rest = (t - p_draft[i]).clamp(min=0)\n": "",
        "t = rest / rest.sum()": "t = p_target[here + 1]",
    },
)


@EXERCISE.misconception(
    "You judge only the first child of a node: when it is rejected, you return the residual, as for a chain. "
    "In a tree, judge the next child of the same node by this residual."
)
def first_child_only(p_target, p_draft, tokens, parents, u):
    path, here = [], -1
    for i in range(len(tokens)):
        if parents[i] != here:
            continue
        x = tokens[i]
        if u[i] * p_draft[i, x] >= p_target[here + 1, x]:
            rest = (p_target[here + 1] - p_draft[i]).clamp(min=0)
            return path, rest / rest.sum()
        path.append(i)
        here = i
    return path, p_target[here + 1]


edited(
    "ancestors_not_checked",
    "You accept nodes whose parent was not accepted. Judge only the children of the node that was accepted "
    "last.",
    {"        if parents[i] != here:\n            continue\n": ""},
    gravity="useless",
)


@EXERCISE.misconception(
    "You go on with siblings after one of them was accepted, so your path has two guesses for one place. "
    "Judge only the children of the node that was accepted last."
)
def every_branch(p_target, p_draft, tokens, parents, u):
    path, left, accepted = [], {-1: p_target[0]}, {-1}
    here = -1
    for i in range(len(tokens)):
        parent = int(parents[i])
        if parent not in accepted:
            continue
        x, t = tokens[i], left[parent]
        if u[i] * p_draft[i, x] < t[x]:
            path.append(i)
            accepted.add(i)
            left[i] = p_target[i + 1]
            here = i
        else:
            rest = (t - p_draft[i]).clamp(min=0)
            left[parent] = rest / rest.sum()
    return path, left[here]


edited(
    "row_of_the_node_before",
    "After node i you use row i of p_target. Row 0 belongs to the text, so the row after node i is "
    "p_target[i + 1].",
    {"p_target[i + 1]": "p_target[i]"},
)

edited(
    "row_of_the_parent",
    "After an accepted node you go on with the distribution of its parent. Take the one after the node "
    "itself: p_target[i + 1].",
    {"here, t = i, p_target[i + 1]": "here, t = i, p_target[here + 1]"},
)

edited(
    "residual_kept_below",
    "You go on below an accepted node with what its siblings have left. There another token is predicted: "
    "begin again with p_target[i + 1].",
    {"here, t = i, p_target[i + 1]": "here = i"},
)

edited(
    "next_row_of_the_table",
    "You take the rows of p_target by depth, as for a chain. The row after node i is p_target[i + 1], "
    "however deep the node is.",
    {"p_target[i + 1]": "p_target[len(path)]"},
)

edited(
    "last_row_at_a_leaf",
    "At a node without children you return the last row of p_target, which is right for a chain. Return the "
    "row after the node that was accepted last.",
    {"return path, t": "return path, t if here in parents.tolist() else p_target[-1]"},
)

edited(
    "ratio_inverted",
    "Your ratio is upside down. Accept a guess where u is below t/q, so that a token which the draft prefers "
    "too much is often rejected.",
    {"u[i] * p_draft[i, x] < t[x]": "u[i] * t[x] < p_draft[i, x]"},
)

edited(
    "draft_forgotten",
    "You compare u with the target's probability alone, but the guess was drawn with probability q already. "
    "Compare u with the ratio t/q.",
    {"u[i] * p_draft[i, x] < t[x]": "u[i] < t[x]"},
)

edited(
    "accepts_above_the_ratio",
    "Your comparison is the wrong way round. Accept a guess where u is *below* t/q.",
    {"u[i] * p_draft[i, x] < t[x]": "u[i] * p_draft[i, x] > t[x]"},
    gravity="useless",
)

edited(
    "one_u_for_all",
    "You use the first u for all nodes. Each node has its own: u[i].",
    {"u[i]": "u[0]"},
)

edited(
    "one_u_for_a_place",
    "You use one u for all children of a node. Each child has its own: u[i]. Once the first child is "
    "rejected, its u is known to be large, so it is not a fair draw for the second.",
    {"u[i]": "u[parents.tolist().index(here)]"},
)

edited(
    "draft_of_the_first_sibling",
    "You use the draft of the first sibling for all. Each has a row of its own, p_draft[i]: siblings may be "
    "drawn without replacement.",
    {
        "        x = tokens[i]\n": "        x, first = tokens[i], parents.tolist().index(here)\n",
        "p_draft[i, x]": "p_draft[first, x]",
        "- p_draft[i])": "- p_draft[first])",
    },
)

edited(
    "greedy_test",
    "You accept a guess only if it is the likeliest token of the target, which is right for greedy decoding "
    "alone. Accept it where u is below t/q.",
    {"u[i] * p_draft[i, x] < t[x]": "x == t.argmax()"},
)


@EXERCISE.misconception(
    "You take the likeliest of the children that pass. Take the first that passes, and judge none after it: "
    "choosing among them changes the distribution."
)
def likeliest_child(p_target, p_draft, tokens, parents, u):
    path, here = [], -1
    while True:
        t, passed = p_target[here + 1], []
        for i in torch.nonzero(parents == here).flatten().tolist():
            x = tokens[i]
            if u[i] * p_draft[i, x] < t[x]:
                passed.append(i)
            else:
                rest = (t - p_draft[i]).clamp(min=0)
                t = rest / rest.sum()
        if not passed:
            return path, t
        here = max(passed, key=lambda i: float(p_target[here + 1, tokens[i]]))
        path.append(here)


among_children(
    "last_child_first",
    "You judge the children from the last to the first. Judge them in the order of their numbers.",
    {".flatten().tolist()": ".flatten().tolist()[::-1]"},
)

edited(
    "not_clamped",
    "Your residual is t - q, which is negative for some tokens. Clamp it at 0, and divide by its sum.",
    {"(t - p_draft[i]).clamp(min=0)": "t - p_draft[i]", "t = rest / rest.sum()": "t = rest"},
)

edited(
    "absolute_difference",
    "You take the difference without its sign, which gives weight to tokens that the draft offers too often "
    "already. Clamp the difference at 0.",
    {".clamp(min=0)": ".abs()"},
)

edited(
    "draft_minus_target",
    "Your difference is the wrong way round. Write t - q.",
    {"(t - p_draft[i])": "(p_draft[i] - t)"},
    gravity="slip",
)

edited(
    "not_renormalised",
    "Your residual is not divided by its sum: the next sibling is accepted too seldom, and the next "
    "distribution sums to less than 1. Divide after each rejection.",
    {"t = rest / rest.sum()": "t = rest"},
)

wrong(
    EXERCISE,
    one_walk,
    "renormalised_at_the_end_alone",
    "You divide by the sum only at the end, so a second sibling is judged by numbers that sum to less than "
    "1. Divide after each rejection.",
    {"t = rest / rest.sum()": "t = rest", "return path, t": "return path, t / t.sum()"},
)

edited(
    "softmax_of_the_rest",
    "You normalise with a softmax, which gives weight to tokens whose residual is 0. Divide by the sum.",
    {"rest / rest.sum()": "torch.softmax(rest, dim=0)"},
)

edited(
    "rejected_token_taken_out",
    "You only take the rejected token out of t, and other tokens that the draft prefers come out too often. "
    "Subtract all of q, and clamp at 0.",
    {"rest = (t - p_draft[i]).clamp(min=0)": "rest = t.clone()\n            rest[x] = 0"},
)

edited(
    "tokens_for_nodes",
    "Your path holds tokens. Return the numbers of the accepted nodes.",
    {"path.append(i)": "path.append(int(x))"},
    gravity="slip",
)

edited(
    "the_number_of_accepted",
    "You return how many nodes are accepted. In a tree this does not show which: return the list of their "
    "numbers.",
    {"return path, t": "return len(path), t"},
)

edited(
    "text_in_the_path",
    "Your path begins with -1, the text. Return only the accepted nodes: an empty list if there are none.",
    {"path, here, t = []": "path, here, t = [-1]"},
    gravity="slip",
)

edited(
    "from_the_last_to_the_first",
    "Your path is in reverse order. Return the accepted nodes from the first to the last.",
    {"return path, t": "return path[::-1], t"},
    gravity="slip",
)

edited(
    "rejected_among_the_accepted",
    "Your path holds the rejected nodes too. Append a node only when it is accepted.",
    {
        "        x = tokens[i]\n": "        x = tokens[i]\n        path.append(i)\n",
        "            path.append(i)\n": "",
    },
    gravity="useless",
)

edited(
    "results_swapped",
    "You return the distribution first. Return the path, then the distribution.",
    {"return path, t": "return t, path"},
    gravity="slip",
)

edited(
    "token_for_its_distribution",
    "You return the next token. Return its distribution: your caller draws.",
    {"return path, t": "return path, t.argmax()"},
)

edited(
    "changed_in_place",
    "You write the residual into the caller's p_target, as `-=` and `clamp_` do. Write t - q, which makes a "
    "new tensor.",
    {"rest = (t - p_draft[i]).clamp(min=0)": "t -= p_draft[i]\n            rest = t.clamp_(min=0)"},
)

edited(
    "left_on_the_cpu",
    "Your next distribution is on the cpu, wherever p_target is. Make it on the device of p_target, for "
    "example with p_target.new_tensor(...).",
    {"return path, t": "return path, torch.tensor(t.tolist(), dtype=p_target.dtype)"},
    gravity="slip",
)


edited(
    "draft_of_the_parent",
    "Your residual subtracts the parent's row of p_draft. Subtract p_draft[i], from which node i was drawn.",
    {"(t - p_draft[i])": "(t - p_draft[parents[i]])"},
)

edited(
    "any_accepted_parent",
    "Your path holds two children of one node. A node is judged only if its parent is the node that was "
    "accepted last.",
    {"parents[i] != here": "parents[i] != -1 and parents[i] not in path"},
)
