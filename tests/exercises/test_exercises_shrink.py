"""A failing case is made smaller before it is shown, and still shows the same failure."""

import dataclasses
import time

import numpy as np
import pytest
import torch
from exercise_bank import SAMPLE, report_on, toy
from hypothesis import given
from hypothesis import strategies as st

from autograder import exercises
from autograder.cage.tensors import arrays, numbers
from autograder.checking.candidate import local, watched_at_first
from autograder.checking.declaration import Case, Lent, Seed
from autograder.checking.examination import Examination
from autograder.checking.shrink import MOST_TRIED, Patience, size
from autograder.checking.shrink import shrink_case as shrunk_within
from autograder.student import PUBLIC_SEED


def shrunk(case, still_fails):
    return shrunk_within(case, still_fails, Patience())


def case(*args, **kwargs):
    return Case("drawn", args, kwargs)


def test_an_axis_is_cut_wherever_it_stands():
    q, k = np.random.default_rng(1).normal(size=(4, 7)), np.random.default_rng(2).normal(size=(5, 7))
    small = shrunk(case(q, k), lambda c: c.args[0].shape[-1] == c.args[1].shape[-1])
    assert [a.shape for a in small.args] == [(1, 2), (1, 2)]
    assert small.says == "smallest case"


def test_a_row_keeps_two_numbers():
    """One channel has no variance, and a softmax over one score is 1."""
    small = shrunk(case(torch.randn(3, 5, 7), torch.randn(7)), lambda c: True)
    assert [tuple(a.shape) for a in small.args] == [(3, 1, 2), (2,)]


def test_numbers_that_differ_stay_different():
    """Channels that are all alike have no variance."""
    small = shrunk(case(np.array([1.254, 1.347, -2.0])), lambda c: True).args[0].tolist()
    assert len(set(small)) == 3
    assert small != [1.254, 1.347, -2.0]


def test_all_cases_of_a_report_share_the_patience():
    patience, x = Patience(seconds=0.05), case(np.random.default_rng(0).normal(size=(40, 50)))

    def slowly(c):
        time.sleep(0.02)
        return True

    assert shrunk_within(x, slowly, patience) is not x
    assert patience.seconds < 0.01
    assert shrunk_within(x, lambda c: True, patience) is x
    assert shrunk_within(x, lambda c: True, Patience(0)) is x
    few = Patience(3)
    assert shrunk_within(x, lambda c: True, few) is not x
    assert few.cases == 0


@pytest.mark.slow
def test_a_slow_answer_gets_the_report_of_a_quick_one():
    """A busy machine makes every answer slow, and the same answer has to get the same report."""
    x = case(np.random.default_rng(0).normal(size=(40, 50)))

    def slowly(c):
        time.sleep(0.1)
        return c.args[0].shape[0] > 3

    slow, quick = shrunk(x, slowly), shrunk(x, lambda c: c.args[0].shape[0] > 3)
    assert np.array_equal(slow.args[0], quick.args[0])


def test_numbers_are_rounded_as_far_as_the_failure_allows():
    x = np.array([0.123456, -2.71828])
    assert shrunk(case(x), lambda c: True).args[0].tolist() == [0.0, -3.0]
    assert shrunk(case(x), lambda c: c.args[0][0] > 0).args[0].tolist() == [0.1, -2.7]
    assert shrunk(case(x), lambda c: c.args[0][0] > 0.11).args[0].tolist() == [0.12, -2.72]
    assert shrunk(case(x), lambda c: c.args[0][0] > 0.123).args[0].tolist() == [0.1235, -2.7183]
    assert shrunk(case(x), lambda c: c.args[0][0] == x[0]).args[0] is x


def test_what_does_not_fail_smaller_is_shown_as_it_is():
    given_case = case(torch.ones(3, 4, 5))
    assert shrunk(given_case, lambda c: False) is given_case


@pytest.mark.parametrize("argument", [Seed(3), Lent("a model", object)])
def test_cases_with_generators_and_models_are_left_alone(argument):
    given_case = case(np.ones((9, 8)), argument)
    assert shrunk(given_case, lambda c: True) is given_case


@pytest.mark.slow
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 40))
def test_it_ends_and_never_grows(shape, least):
    tried = []

    def fails(c):
        tried.append(c)
        return c.args[0].size >= least

    x = np.random.default_rng(0).normal(size=shape)
    small = shrunk(case(x), fails)
    assert size(small) <= size(case(x))
    assert len(tried) <= MOST_TRIED
    assert x.size < least or small.args[0].size >= least


def test_the_original_is_not_written_into():
    x = torch.arange(24.0).reshape(4, 6)
    small = shrunk(case(x), lambda c: True)
    small.args[0].fill_(7)
    assert x.flatten().tolist() == list(range(24))


@pytest.mark.slow
def test_a_report_shows_the_small_case():
    def attention_scores(query, key):
        return query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1] + 1)

    first = report_on("ch02_qkv/attention_scores", attention_scores, shrinking=True).failures[0]
    assert first.case == "a single key"
    assert first.call.startswith("attention_scores(query=np.array([[")
    assert len(first.call) < 160
    assert "1/sqrt(d_k)" in first.broken


@pytest.mark.parametrize("keeps", [True, False])
def test_a_case_outside_the_domain_is_not_shown(keeps):
    """Rows of weights do not sum to 1 any more when a weight is cut off."""

    def softmax_jacobian(p):
        return p[..., :, None] * (0.9 * np.eye(p.shape[-1]) - p[..., None, :])

    exercise = dataclasses.replace(exercises.find("softmax_jacobian"), domain=lambda case: keeps)
    examination = Examination(exercise, PUBLIC_SEED)
    plain, small = (examination.report_on(local(softmax_jacobian), shrinking) for shrinking in (False, True))
    calls = [[failure.call for failure in report.failures] for report in (plain, small)]
    assert (calls[0] != calls[1]) is keeps


def test_weights_are_told_from_other_numbers():
    from autograder.exercises.laws import of_weights

    assert of_weights(case(np.array([[0.5, 0.5], [0.0, 0.0]])))
    assert of_weights(Case("columns", (np.array([[0.25], [0.75]]),), {"axis": 0}))
    assert not of_weights(case(np.array([0.5, 0.25])))


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_a_smaller_case_is_told_with_the_same_points_and_the_same_hint(name):
    """Shrinking explains: it changes neither points nor diagnosis."""
    exercise = exercises.find(name)
    examination = Examination(exercise, PUBLIC_SEED)
    for mistake in exercise.misconceptions[:3]:
        candidate = watched_at_first(mistake.function, (*exercise.forbidden, "tfcore"))
        plain, small = examination.report_on(candidate, shrinking=False), examination.report_on(candidate)
        assert (plain.score, plain.diagnosis) == (small.score, small.diagnosis)
        for one, other in zip(plain.failures, small.failures, strict=True):
            assert (one.hint, bool(one.broken)) == (other.hint, bool(other.broken))


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_a_mistake_gets_the_same_report_whether_it_was_made_before_or_not(name):
    exercise = exercises.find(name)
    for mistake in exercise.misconceptions[:3]:
        fresh, learned = Examination(exercise, PUBLIC_SEED), Examination(exercise, PUBLIC_SEED)
        for criterion in exercise.criteria:
            learned.learn(mistake.name, criterion.says)
        assert learned.report_on(local(mistake.function)) == fresh.report_on(local(mistake.function)), (
            mistake.name
        )


def test_who_makes_a_mistake_of_the_bank_is_asked_only_for_its_smallest_case():
    """Looking for it is our work: over the wire each question would cost."""
    exercise = toy()
    mistake = next(m for m in exercise.misconceptions if m.name == "mean")
    examination, candidate = Examination(exercise, PUBLIC_SEED), local(mistake.function)
    drawn = {id(case) for _, cases in examination.oracle.drawn for case in cases}
    others = []

    def counted(case):
        others.extend([case] if id(case) not in drawn else [])
        return candidate(case)

    report = examination.report_on(counted)
    assert report.diagnosis == "mean"
    assert 0 < len(others) <= 2 * len(report.failures)


def test_a_mistake_with_an_oddity_of_its_own_has_its_own_smallest_case():
    """It does what a mistake of the bank does in every case drawn, and something else in the smallest."""
    exercise = toy()
    examination = Examination(exercise, PUBLIC_SEED)
    mistake = next(m for m in exercise.misconceptions if m.name == "mean")
    smallest = examination.smallest.find(mistake, exercise.criteria[0])

    def odd(x, axis=None):
        return x.sum(axis=axis) if np.array_equal(x, smallest.args[0]) else mistake.function(x, axis)

    shown = examination.report_on(local(odd)).failures[0]
    assert shown.misconception == "mean"
    assert shown.call != examination.report_on(local(mistake.function)).failures[0].call


def test_numbers_of_every_kind_are_counted():
    assert size(case(np.ones((2, 3)), {"a": [torch.ones(4)]}, 5)) == 11
    assert [numbers(a).size for a in arrays(np.ones(2), {"a": [torch.ones(4)]})] == [2, 4]
