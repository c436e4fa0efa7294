"""A claimed cost that no meter can have counted is refused, and what meters do count is not."""

from dataclasses import replace

import pytest
import torch
from exercise_bank import PUBLIC_SEED, examination

from autograder import exercises
from autograder.cage import calling
from autograder.checking.candidate import local
from autograder.checking.costs import impossible

COUNTED = {
    "operations": 60,
    "calls": {"mm": 1},
    "largest": 10,
    "largest_shape": [2, 5],
    "peak_bytes": 40,
    "total_bytes": 80,
}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x @ x.T,
        lambda x: x.T,
        lambda x: [x.repeat(n, 1) for n in (1, 2, 3)][-1].sum(),
        lambda x: x.numpy() * 2,
        lambda x: x.clone().resize_(50, 50),
        lambda x: torch.empty(0, 3),
    ],
)
def test_what_the_meters_count_is_possible(function):
    told = calling.call(function, [torch.ones(3, 3)], {}, [], "call", metered=True)
    assert told["error"] is None
    assert impossible(told["cost"]) is None


@pytest.mark.parametrize(
    "claimed",
    [
        None,
        {},
        COUNTED | {"calls": 3},
        *(COUNTED | {"operations": lie} for lie in (-1, 0.5, float("nan"), True, None, "60", 10**40)),
        COUNTED | {"largest_shape": [2, -5]},
        COUNTED | {"calls": {"mm": -1}},
        COUNTED | {"peak_bytes": 81},
        COUNTED | {"total_bytes": 0, "peak_bytes": 0},
        COUNTED | {"largest": 0},
    ],
)
def test_what_they_cannot_have_counted_is_refused(claimed):
    assert impossible(COUNTED) is None
    assert impossible(claimed)


NOTHING = {"operations": 0, "calls": {}, "largest": 0, "largest_shape": [], "peak_bytes": 0, "total_bytes": 0}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "ch08_kv_cache/KVCache",
        "ch08_kv_cache/SlidingWindowCache",
        "ch10_beyond_attention/linear_attention",
        "ch09_cheaper_attention/tiled_attention",
    ],
)
def test_a_right_answer_that_cost_nothing_has_not_been_counted(name):
    honest = local(exercises.find(name).styles[0].function)

    def lying(case):
        outcome = honest(case)
        return replace(outcome, cost=NOTHING) if case.metered else outcome

    (failure,) = examination(name, PUBLIC_SEED).report_on(lying, shrinking=False).failures
    assert "operations done without torch cannot be counted" in failure.fault
