"""Memory that was never written is NaN while a function is called, and nothing else is changed."""

import textwrap
import warnings

import numpy as np
import pytest
import torch
from small_course import LIMITS

from autograder.cage import calling, memory
from autograder.checking.candidate import local
from autograder.checking.examination import Examination
from autograder.exercises import find
from autograder.grading.pair import file_task

SEEDS = range(50)
ENTROPY, SINUSOIDS = "ch03_scaling/attention_entropy", "ch05_positions/sinusoidal_encoding"


def called(function, *args, metered=False):
    return calling.call(function, list(args), {}, [], metered=metered)


def value(function, *args):
    outcome = called(function, *args)
    assert outcome["error"] is None, outcome["message"]
    return outcome["value"]


def without_out(weights, axis=-1):
    return -(weights * np.log(weights, where=weights > 0)).sum(axis=axis)


def after_a_right_result(weights, axis=-1):
    logs = np.log(np.where(weights > 0, weights, 1))
    del logs  # the next array of this size gets its memory
    return -(weights * np.log(weights, where=weights > 0)).sum(axis=axis)


def with_out(weights, axis=-1):
    logs = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
    return -(weights * logs).sum(axis=axis)


def masked_afterwards(weights, axis=-1):
    logs = np.log(weights, where=weights > 0)
    return -np.where(weights > 0, weights * logs, 0).sum(axis=axis)


def written_in_part(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    pe = np.empty((max_seq_len, d_model))
    angles = np.arange(1, max_seq_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    pe[1:, 0::2], pe[1:, 1::2], pe[0, 1::2] = np.sin(angles), np.cos(angles), 1
    return pe


def written_in_full(max_seq_len, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    pe = np.empty((max_seq_len, d_model))
    angles = np.arange(max_seq_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    pe[:, 0::2], pe[:, 1::2] = np.sin(angles), np.cos(angles)
    return pe


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "function", "is_right"),
    [
        (ENTROPY, without_out, False),
        (ENTROPY, after_a_right_result, False),
        (ENTROPY, with_out, True),
        (ENTROPY, masked_afterwards, True),
        (SINUSOIDS, written_in_part, False),
        (SINUSOIDS, written_in_full, True),
    ],
)
def test_unwritten_memory_is_seen_under_every_seed(name, function, is_right):
    exercise = find(name)
    scores = [Examination(exercise, seed).report_on(local(function), shrinking=False).score for seed in SEEDS]
    assert all((score == exercise.points) is is_right for score in scores)


def test_it_is_seen_in_the_cage_whatever_a_notebook_silences(pair):
    source = textwrap.dedent("""
        import warnings
        import numpy as np

        warnings.filterwarnings("ignore")

        def attention_entropy(weights, axis=-1):
            return -(weights * np.log(weights, where=weights > 0)).sum(axis=axis)
    """)
    for seed in (1, 2, 3):
        (cell,) = pair.grade(file_task(ENTROPY, source.encode(), False, seed, LIMITS)).cells
        assert cell.report.score < cell.report.max_score


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_arrays_of_numpy_begin_as_nan(dtype):
    assert np.isnan(value(lambda: np.empty((2, 3), dtype))).all()
    assert np.isnan(value(lambda: np.empty_like(np.ones(3, dtype)))).all()
    assert np.isnan(value(lambda: np.empty(3, dtype=dtype))).all()


MADE = [
    lambda dtype: torch.empty(2, 3, dtype=dtype),
    lambda dtype: torch.empty_like(torch.ones(4, dtype=dtype)),
    lambda dtype: torch.ones(1, dtype=dtype).new_empty(3),
    lambda dtype: torch.empty_strided((2, 3), (1, 2), dtype=dtype),
    lambda dtype: torch.ones(2, dtype=dtype).resize_(5)[2:],
]


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_begin_as_nan(make, dtype):
    assert value(make, dtype).isnan().all()


def test_whole_numbers_begin_large_and_odd():
    assert value(lambda: torch.empty(3, dtype=torch.int8)).tolist() == [127] * 3
    assert value(lambda: torch.empty(3, dtype=torch.int64)).tolist() == [2**63 - 1] * 3
    assert value(lambda: np.empty(3, np.int32)).tolist() == [2**31 - 1] * 3
    assert value(lambda: np.empty(3, bool)).tolist() == [True] * 3


def test_what_is_written_is_as_it_was_written():
    drawn = torch.empty(3, 4).uniform_(generator=torch.Generator().manual_seed(5))
    again = value(lambda: torch.empty(3, 4).uniform_(generator=torch.Generator().manual_seed(5)))
    assert torch.equal(drawn, again)
    assert value(lambda: np.full_like(np.empty(4), 7)).tolist() == [7] * 4


def test_a_layer_of_torch_begins_as_ever():
    torch.manual_seed(3)
    expected = torch.nn.Linear(4, 5).weight

    def made():
        torch.manual_seed(3)
        return torch.nn.Linear(4, 5).weight

    assert torch.equal(value(made), expected)


def test_counted_costs_are_those_without_filling(monkeypatch):
    def work():
        out = torch.empty(50, 60)
        out[:] = torch.ones(50, 70) @ torch.ones(70, 60)
        return out.new_empty(3).fill_(1)

    filled = called(work, metered=True)["cost"]
    monkeypatch.setattr(calling.memory, "unwritten_is_nan", lambda given: warnings.catch_warnings())
    assert called(work, metered=True)["cost"] == filled
    assert filled["operations"] == 2 * 50 * 60 * 70


class TestAfterACall:
    def test_everything_is_as_before(self):
        before = np.empty, np.empty_like, warnings.showwarning, list(warnings.filters)
        called(lambda: np.empty(3))
        called(lambda: 1 / 0)
        assert before == (np.empty, np.empty_like, warnings.showwarning, list(warnings.filters))
        assert not torch.are_deterministic_algorithms_enabled()

    def test_what_a_notebook_chose_is_kept(self):
        torch._C._set_deterministic_algorithms(True, warn_only=False)
        try:
            called(lambda: torch.ones(1))
            assert torch.are_deterministic_algorithms_enabled()
            assert not torch.is_deterministic_algorithms_warn_only_enabled()
        finally:
            torch._C._set_deterministic_algorithms(False)


def test_an_older_numpy_that_does_not_warn_is_filled_before_the_call(monkeypatch):
    monkeypatch.setattr(memory, "NEVER_WARNS", True)
    monkeypatch.setattr(memory, "WARNING", "another warning")
    weights = np.array([0.0, 0.25, 0.75, 0.0])
    assert np.isnan(value(without_out, weights))
