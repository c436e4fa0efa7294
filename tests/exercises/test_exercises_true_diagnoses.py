"""A diagnosis is true: two faults do not hide each other, and no law says what did not happen."""

import math

import pytest
import torch
from exercise_bank import named, report_on

from autograder.checking.candidate import local
from autograder.checking.declaration import Case, Outcome, Trial
from autograder.exercises.ch08_serving.PagedCache_styles import block_tables
from autograder.exercises.laws import FIRST, LAST


def memory(dtype=None, device=None, looked_up=None, add=None):
    """The delta rule, in which each part can be another one."""

    def delta_rule(query, key, value, beta):
        B, h, T, d = key.shape
        S = torch.zeros(B, h, value.shape[-1], d, dtype=dtype or query.dtype, device=device or query.device)
        outputs = []
        for t in range(T):
            k, q = key[:, :, t], query[:, :, t, :, None]
            by = q if looked_up == "query" else k[..., None]
            change = value[:, :, t] - (S @ by).squeeze(-1)
            written = (change * beta[:, :, t, None])[..., :, None] * k[..., None, :]
            S = S.add_(written) if add == "in place" else S + written
            outputs.append((S @ q).squeeze(-1))
        return torch.stack(outputs, dim=2)

    return delta_rule


@pytest.mark.slow
@pytest.mark.parametrize(
    ("beside", "says"),
    [
        ({}, "look up the old value with the query"),
        ({"dtype": torch.float32}, "expected scalar type Float"),
        ({"device": "cpu"}, "since your code made it without `device=`"),
        ({"add": "in place"}, "in place, and the gradient still needs"),
    ],
)
def test_a_mistake_is_named_beside_a_fault_of_another_kind(beside, says):
    report = report_on(named("delta_rule"), memory(looked_up="query", **beside))
    assert report.criteria[0].failure.misconception == "looked_up_by_the_query", report
    assert says in str(report)


@pytest.mark.slow
@pytest.mark.parametrize("beside", [{"dtype": torch.float32}, {"device": "cpu"}, {"add": "in place"}])
def test_a_fault_of_a_side_condition_alone_names_no_mistake_of_the_formula(beside):
    report = report_on(named("delta_rule"), memory(**beside))
    assert report.criteria[0].failure is None
    assert "old value" not in report.message


def said_of(got, expected):
    """Return what the laws for every exercise say of a result."""
    got, expected = torch.as_tensor(got), torch.as_tensor(expected)
    trial = Trial(Case("a case", (torch.ones(2),)), Outcome(value=got), expected, local(lambda x: got))
    return next((said for law in (*FIRST, *LAST) if (said := law.broken(trial))), "")


@pytest.mark.parametrize(
    ("got", "expected", "says", "never"),
    [
        ([0.0, 1.0, 0.0], [0.02, 0.97, 0.01], "", "rounded"),
        ([0.0, 0.9, 0.1], [0.02, 0.88, 0.1], "rounded to 1 decimal", "infinite"),
        ([0.5, -math.inf], [0.5, 0.2], "a mask fills with it", "overflow"),
        ([0.5, math.inf], [0.5, 0.2], "exp overflows", "mask"),
    ],
)
def test_a_law_says_only_what_the_numbers_show(got, expected, says, never):
    said = said_of(got, expected)
    assert says in said
    assert never not in said


def scaled_by_d(q, k, v, block_size, causal=False):
    hidden = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1) & causal
    m, total, out = torch.full_like(q[..., :1], -1e30), 0, 0
    for j in range(0, q.shape[2], block_size):
        block = slice(j, j + block_size)
        scores = (q @ k[:, :, block].mT / q.shape[-1]).masked_fill(hidden[:, block], -1e30)
        new = torch.maximum(m, scores.amax(-1, keepdim=True))
        weights, old = torch.exp(scores - new), torch.exp(m - new)
        total, out = old * total + weights.sum(-1, keepdim=True), old * out + weights @ v[:, :, block]
        m = new
    return out / total


@pytest.mark.slow
def test_rounding_in_half_precision_is_no_fault_of_the_blocks():
    report = report_on(named("tiled_attention"), scaled_by_d)
    assert not report.passed
    assert "how the tokens are cut" not in str(report)


def joined_path(p_target, p_draft, tokens, parents, u):
    t, last, path = p_target[0], -1, []
    for i, x in enumerate(tokens.tolist()):
        if parents[i] == last:
            if u[i] < t[x] / p_draft[i, x]:
                path, last, t = [*path, i], i, p_target[i + 1]
            else:
                t = (t - p_draft[i]).clamp(min=0)
                t = t / t.sum()
    return torch.tensor(path), t


@pytest.mark.slow
def test_the_result_that_is_on_the_cpu_is_the_one_that_is_named():
    report = report_on(named("accept_tree"), joined_path)
    assert "result 1 of 2 is on the cpu" in str(report)
    assert "next distribution" not in report.message


@pytest.mark.slow
def test_a_fault_that_is_a_broken_law_is_written_once():
    def upside_down(p_target, p_draft, tokens, parents, u):
        path, t = joined_path(p_target, p_draft, tokens, parents, 1 - u)
        return path.tolist(), t

    lines = [line.strip() for line in str(report_on(named("accept_tree"), upside_down)).splitlines()]
    told = [line for line in lines if "is right. Node" in line]
    assert told
    assert len(told) == len({line[line.index("your path") :] for line in told})


def test_other_parameters_than_those_of_the_notebook_are_named():
    def sliding_window_mask(T, window):
        return torch.ones(T, T, dtype=torch.bool)

    def with_keywords(seq_len, *, width):
        return sliding_window_mask(seq_len, width)

    def recursive(seq_len, window):
        return sliding_window_mask(seq_len)

    with_keywords.__qualname__ = "sliding_window_mask"
    report = report_on(named("sliding_window_mask"), with_keywords)
    assert "Keep the parameters of the notebook: `sliding_window_mask(seq_len, window)`" in str(report)
    assert "Keep the parameters" not in str(report_on(named("sliding_window_mask"), recursive))


def test_blocks_that_a_refused_append_keeps_are_named_with_their_step():
    class TokenByToken(block_tables):
        def append(self, sequence, k, v):
            self.tables.setdefault(sequence, [])
            self.lengths.setdefault(sequence, 0)
            for t in range(k.shape[1]):
                super().append(sequence, k[:, t : t + 1], v[:, t : t + 1])

    report = " ".join(str(report_on("PagedCache", TokenByToken)).split())
    assert "step 2, `append` of 4 tokens, raises a ValueError though enough blocks are free" in report
    assert "then `.append('a', <shape (1, 5, 3)>)`, `.append('b', <shape (1, 4, 3)>)`" in report
