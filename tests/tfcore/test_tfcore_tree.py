"""A tree of guesses gives the target's own distribution, for each shape and each way to draw siblings."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from decoding_models import decoder, draw_tokens
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tfcore.generate import accept_tree, speculative_accept, tree_mask

TREES = {
    "no guess": [],
    "one": [-1],
    "chain": [-1, 0, 1],
    "two siblings": [-1, -1],
    "three siblings": [-1, -1, -1],
    "two, each with a child": [-1, -1, 0, 1],
    "the second has two": [-1, -1, 1, 1],
    "numbered by depth first": [-1, 0, 0, -1],
}
DRAWS = ("with replacement", "without replacement", "the likeliest")


def fractions(seed, V):
    """Draw a distribution in exact numbers; one in five of its entries is 0."""
    rng = np.random.default_rng(seed)
    parts = [int(x) for x in rng.integers(1, 9, V) * (rng.random(V) > 0.2)]
    parts[int(rng.integers(V))] += 1
    return [Fraction(x, sum(parts)) for x in parts]


def row_of(q, earlier, draw):
    """Say what a sibling is drawn from after the tokens of the siblings before it; None: nothing is left."""
    if draw == "with replacement":
        return q
    left = [0 if x in earlier else weight for x, weight in enumerate(q)]
    if not sum(left):
        return None
    if draw == "the likeliest":
        best = left.index(max(left))
        return [Fraction(x == best) for x in range(len(q))]
    return [x / sum(left) for x in left]


def drafts(parents, q, draw):
    """List all ways to draw the tokens of a tree: tokens, the row of each node, and their probability."""
    ways = [((), (), Fraction(1))]
    for node, parent in enumerate(parents):
        grown = []
        for tokens, rows, probability in ways:
            earlier = [tokens[i] for i in range(node) if parents[i] == parent]
            row = row_of(q[text_of(parents, tokens, parent)], earlier, draw)
            if row is None:
                return []
            grown += [((*tokens, x), (*rows, row), probability * row[x]) for x in range(len(row)) if row[x]]
        ways = grown
    return ways


def text_of(parents, tokens, node):
    """Return the tokens from the root to a node."""
    return () if node < 0 else (*text_of(parents, tokens, parents[node]), tokens[node])


def judgements(parents, tokens, rows, p, here=-1, t=None, judged=()):
    """List all outcomes of the rule in exact numbers: accepted and rejected nodes, probability, next t."""
    t = p[text_of(parents, tokens, here)] if t is None else t
    done = {node for node, _, _ in judged}
    children = [i for i, parent in enumerate(parents) if parent == here and i not in done]
    if not children:
        yield judged, t
        return
    node = children[0]
    x, q = tokens[node], rows[node]
    ratio = min(Fraction(1), t[x] / q[x])
    if ratio > 0:
        yield from judgements(parents, tokens, rows, p, node, None, (*judged, (node, True, ratio)))
    if ratio < 1:
        left = [max(a - b, Fraction(0)) for a, b in zip(t, q, strict=True)]
        t = [a / sum(left) for a in left]
        yield from judgements(parents, tokens, rows, p, here, t, (*judged, (node, False, ratio)))


def tensor(rows, V):
    return torch.tensor([[float(x) for x in row] for row in rows], dtype=torch.float64).reshape(-1, V)


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("seed", [0, 1])
def test_what_comes_out_has_the_distribution_of_the_target_exactly(tree, draw, seed):
    parents, V = TREES[tree], 3
    texts = [x for k in range(4) for x in itertools.product(range(V), repeat=k)]
    p = {x: fractions(7 * i + seed, V) for i, x in enumerate(texts)}
    q = {x: [Fraction(1, 6), Fraction(1, 2), Fraction(1, 3)] for x in texts}
    if seed:
        q = {x: sorted(q[x], reverse=True) if len(x) % 2 else q[x] for x in texts}
    longest = max(tree_mask(torch.tensor(parents)).sum(1).tolist(), default=0) + 1
    came = dict.fromkeys(itertools.product(range(V), repeat=longest), 0.0)
    for tokens, rows, drawn in drafts(parents, q, draw):
        p_target = tensor([p[text_of(parents, tokens, i)] for i in range(-1, len(parents))], V)
        for judged, expected in judgements(parents, tokens, rows, p):
            u, probability = torch.full((len(parents),), 0.5, dtype=torch.float64), drawn
            for node, accepted, ratio in judged:
                u[node] = float(ratio / 2 if accepted else (1 + ratio) / 2)
                probability *= ratio if accepted else 1 - ratio
            path, following = accept_tree(
                p_target, tensor(rows, V), torch.tensor(tokens, dtype=torch.long), torch.tensor(parents), u
            )
            assert path == [node for node, accepted, _ in judged if accepted]
            torch.testing.assert_close(following, tensor([expected], V)[0], atol=1e-12, rtol=0)
            begin = text_of(parents, tokens, path[-1] if path else -1)
            for token in range(V):  # the tokens behind are drawn from p, as in the rounds that follow
                for rest in itertools.product(range(V), repeat=longest - len(begin) - 1):
                    text = (*begin, token, *rest)
                    behind = float(probability) * following[token].item()
                    for i in range(len(begin) + 1, longest):
                        behind *= float(p[text[:i]][text[i]])
                    came[text] += behind
    for text, probability in came.items():
        expected = np.prod([float(p[text[:i]][x]) for i, x in enumerate(text)])
        assert probability == pytest.approx(expected, abs=1e-12)


def drawn_tree(parents, q, draw, rng):
    """Draw the tokens of a tree by rows of q that depend on the depth alone; give tokens and rows."""
    tokens, rows, depth = [], [], []
    for node, parent in enumerate(parents):
        depth.append(0 if parent < 0 else depth[parent] + 1)
        row = q[depth[node]].copy()
        if draw == "without replacement":
            row[[tokens[i] for i in range(node) if parents[i] == parent]] = 0
            row /= row.sum()
        tokens.append(int(rng.choice(len(row), p=row)))
        rows.append(row)
    return torch.tensor(tokens), torch.tensor(np.array(rows))


@pytest.mark.slow
@pytest.mark.parametrize("draw", DRAWS[:2])
def test_draws_have_the_distribution_of_the_target(draw):
    """The first two tokens of many rounds; a rule that forgets what siblings rejected fails by far."""
    parents, V, runs = [-1, -1, -1, 0, 0, 1], 5, 6000
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(V), V + 1), rng.dirichlet(np.ones(V), 2)

    def judge_alone(p_target, p_draft, tokens, parents, u):
        """Judge each sibling by p, as if none had been rejected before it, and draw from p itself."""
        path, here = [], -1
        for i, parent in enumerate(parents.tolist()):
            x = tokens[i]
            if parent == here and u[i] * p_draft[i, x] < p_target[here + 1, x]:
                path.append(i)
                here = i
        return path, p_target[here + 1]

    def chance(rule):
        counts = np.zeros((V, V))
        for _ in range(runs):
            tokens, rows = drawn_tree(parents, q, draw, rng)
            behind = torch.tensor(np.concatenate([p[:1], p[1:][tokens]]))
            path, following = rule(behind, rows, tokens, torch.tensor(parents), torch.tensor(rng.random(6)))
            text = [int(tokens[i]) for i in path] + [int(rng.choice(V, p=following.numpy()))]
            text.append(int(rng.choice(V, p=p[1 + text[0]])))
            counts[text[0], text[1]] += 1
        expected = runs * p[0][:, None] * p[1:]
        return stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), V * V - 1)

    assert chance(accept_tree) > 1e-4
    assert chance(judge_alone) < 1e-12, "no power"


@given(st.integers(0, 10_000), st.integers(0, 6))
def test_a_chain_is_judged_as_by_speculative_accept(seed, n):
    rng = torch.Generator().manual_seed(seed)
    p, q = torch.rand(n + 1, 5, generator=rng), torch.rand(n, 5, generator=rng)
    p, q, tokens = (
        p / p.sum(-1, keepdim=True),
        q / q.sum(-1, keepdim=True),
        torch.randint(5, (n,), generator=rng),
    )
    u = torch.rand(n, generator=rng)
    count, expected = speculative_accept(p, q, tokens, u)
    path, following = accept_tree(p, q, tokens, torch.arange(n) - 1, u)
    assert path == list(range(count))
    assert torch.equal(following, expected)


@given(st.integers(0, 10_000), st.integers(1, 8))
def test_the_path_is_one_and_what_follows_is_a_distribution(seed, n):
    rng = np.random.default_rng(seed)
    parents = [int(rng.integers(-1, i)) if i else -1 for i in range(n)]
    p, q = (torch.tensor(rng.dirichlet(np.ones(4), rows)).float() for rows in (n + 1, n))
    tokens, u = torch.tensor(rng.integers(0, 4, n)), torch.tensor(rng.random(n)).float()
    before = [x.clone() for x in (p, q, tokens, u)]
    path, following = accept_tree(p, q, tokens, torch.tensor(parents), u)
    assert [parents[i] for i in path] == [-1, *path[:-1]][: len(path)]
    assert (following >= 0).all()
    assert following.sum().item() == pytest.approx(1, abs=1e-5)
    assert all(torch.equal(x, y) for x, y in zip(before, (p, q, tokens, u), strict=True))


def test_more_siblings_are_accepted_more_often_and_without_replacement_most():
    """By the mean over draws, of the same p and q, that the first place of a tree accepts any guess."""
    rng = np.random.default_rng(3)
    p, q = rng.dirichlet(np.ones(5), 2), rng.dirichlet(np.ones(5), 1)

    def share(siblings, draw):
        accepted = 0
        for _ in range(1500):
            tokens, rows = drawn_tree([-1] * siblings, q, draw, rng)
            target = torch.tensor(p[[0] + [1] * siblings])
            u = torch.tensor(rng.random(siblings))
            accepted += len(accept_tree(target, rows, tokens, torch.tensor([-1] * siblings), u)[0])
        return accepted / 1500

    alone, three, other_three = share(1, DRAWS[0]), share(3, DRAWS[0]), share(3, DRAWS[1])
    assert alone == pytest.approx(np.minimum(p[0], q[0]).sum(), abs=0.05)
    assert alone + 0.05 < three < other_three


def test_rejected_for_certain_and_accepted_for_certain():
    p = torch.tensor([[0.0, 1.0], [0.5, 0.5], [0.3, 0.7]])
    q = torch.tensor([[0.5, 0.5], [0.5, 0.5]])
    tokens, siblings = torch.tensor([0, 1]), torch.tensor([-1, -1])
    path, following = accept_tree(p, q, tokens, siblings, torch.tensor([0.0, 0.99]))
    assert path == [1]
    assert torch.equal(following, p[2])


def test_equal_distributions_that_rounding_rejects_leave_no_nan():
    p, q = torch.tensor([[0.25, 0.75], [0.5, 0.5]]), torch.tensor([[0.25000003, 0.75]])
    path, following = accept_tree(p, q, torch.tensor([0]), torch.tensor([-1]), torch.tensor([0.99999997]))
    assert path == []
    assert torch.equal(following, p[0])


@pytest.mark.parametrize("parents", [[-1, 1], [0, 0], [-2, -1], [-1, 2]], ids=str)
def test_a_parent_comes_before_its_child(parents):
    p, tokens = torch.ones(3, 4) / 4, torch.tensor([1, 2])
    with pytest.raises(ValueError, match="expected a parent from -1 to"):
        accept_tree(p, p[:2], tokens, torch.tensor(parents), torch.rand(2))
    with pytest.raises(ValueError, match="expected a parent from -1 to"):
        tree_mask(torch.tensor(parents))


@pytest.mark.parametrize(
    "shapes", [((2, 4), (2, 4), 2, 2), ((3, 4), (2, 5), 2, 2), ((3, 4), (2, 4), 1, 2), ((3, 4), (2, 4), 2, 3)]
)
def test_shapes_that_do_not_fit(shapes):
    p, q, parents, u = shapes
    with pytest.raises(ValueError, match="row 0 of p_target is for the text"):
        accept_tree(
            torch.ones(p) / 4,
            torch.ones(q) / 4,
            torch.tensor([1, 2]),
            torch.arange(parents) - 1,
            torch.rand(u),
        )


def test_with_the_mask_each_node_reads_its_own_path():
    """One pass over a text and a tree gives each node the logits of the text that ends there."""
    model, text, parents = decoder("rope"), draw_tokens(1, 5), torch.tensor([-1, -1, 0, 0, 2, 1])
    tokens, mask = draw_tokens(1, 6, seed=1)[0], tree_mask(parents)
    depth = mask.sum(1)
    places = torch.cat([torch.arange(5), 4 + depth])
    allowed = torch.ones(11, 11, dtype=torch.bool).tril()
    allowed[5:, 5:] = mask
    stack = model.stack
    x, order = (
        stack.embedding(torch.cat([text[0], tokens])[None]),
        stack.positions.relate(places, places, dtype=torch.float64),
    )
    for block in stack.blocks:
        x = block(x, allowed[None, None], order=order)
    logits = model.head(stack.final_norm(x))[0, 5:]
    for node in range(6):
        path = list(text_of(parents.tolist(), tokens.tolist(), node))
        alone = model(torch.cat([text, torch.tensor([path])], dim=1))[0, -1]
        torch.testing.assert_close(logits[node], alone, atol=1e-10, rtol=0)
