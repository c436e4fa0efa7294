"""How an answer is examined: what is graded, what is explained, what is left alone."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from exercise_bank import EACH, NAMES, PUBLIC_SEED, SAMPLE, alike, cases, examined, report_on, reports, toy

from autograder import exercises
from autograder.cage.tensors import arrays, is_tensor, numbers
from autograder.checking import explanation
from autograder.checking.candidate import local
from autograder.checking.declaration import Case, Criterion, Exercise, Outcome
from autograder.checking.examination import examine


def right(x, axis=None):
    if x.size == 0:
        raise ValueError("empty")
    return x.sum(axis=axis)


class TestExamine:
    def test_right(self):
        report = examined(right)
        assert report.passed
        assert (report.score, report.max_score) == (4, 4)
        assert report.message == "Right."
        assert report.diagnosis is None

    def test_a_blank_stub_is_told_kindly(self):
        def blank(x, axis=None):
            raise NotImplementedError()

        report = examined(blank)
        assert (report.status, report.score) == ("blank", 0)
        assert report.message.startswith("Not written yet")

    @pytest.mark.parametrize(
        ("error", "status"), [("Undefined", "missing"), ("TimeUp", "stopped"), ("KernelDied", "stopped")]
    )
    def test_what_cannot_be_examined(self, error, status):
        calls = []

        def candidate(case):
            calls.append(case)
            return Outcome(error=error, message="there is no function called total")

        report = examine(toy(), candidate, 5)
        assert (report.status, report.score) == (status, 0)
        assert report.note
        assert len(calls) == 1, "nothing more is asked"

    @pytest.mark.parametrize(
        ("value", "words"),
        [
            (None, "got None (is a return missing?)"),
            ("six", "got 'six'"),
            ([1.0, 2.0], "got a list of 2"),
            (np.ones(3), "expected shape (), got shape (3,)"),
            (np.nan, "got nan"),
            (np.array("six"), "got an array of shape ()"),
            (1 + 2j, "got (1+2j)"),
        ],
    )
    def test_what_came_instead_of_a_number(self, value, words):
        report = examined(lambda x, axis=None: value)
        assert report.score == 0
        assert words in report.failures[0].fault
        assert words in str(report)

    def test_an_exception_is_shown_with_its_line(self):
        def broken(x, axis=None):
            y = x + 1
            return y.summ()

        fault = examined(broken).failures[0].fault
        assert "AttributeError" in fault
        assert "return y.summ()" in fault

    def test_no_other_points_without_the_core(self):
        report = examined(lambda x, axis=None: x.mean(axis=axis))
        assert report.score == 0
        assert report.criteria[3].failure is None, "this criterion is met and still gives nothing"
        assert "counts once the first criterion above is met" in str(report)

    def test_partial_credit_with_the_reason(self):
        report = examined(lambda x, axis=None: x.sum())
        assert report.score == 2.5
        assert report.diagnosis == "axis_ignored"
        assert report.message == "You ignore `axis`."

    def test_two_mistakes_at_once_are_both_explained(self):
        def two(x, axis=None):
            result = x.sum()
            x *= 0
            return result

        report = examined(two)
        assert [f.misconception for f in report.failures] == ["axis_ignored", "axis_ignored", "in_place"]
        assert "You ignore `axis`." in str(report)
        assert "You change the input." in str(report)

    def test_a_changed_input_is_named_with_its_numbers(self):
        def change(x, axis=None):
            if x.size == 0:
                raise ValueError
            result = x.sum(axis=axis)
            x[...] = 7
            return result

        fault = examined(change).failures[0].fault
        assert fault.startswith("`x` was changed in place: it had ")
        assert fault.endswith("now 7")

    def test_a_small_change_of_the_input_is_no_rounding(self):
        def change(x, axis=None):
            if x.size == 0:
                raise ValueError
            result = x.sum(axis=axis)
            x += 1e-12
            return result

        report = examined(change)
        assert report.score == 3.5
        assert report.diagnosis is None, "no mistake of the bank does this"

    def test_the_smallest_failing_case_is_shown(self):
        report = examined(lambda x, axis=None: x.mean(axis=axis))
        assert report.failures[0].case == "three numbers"

    def test_a_law_explains_what_no_misconception_does(self):
        failure = examined(lambda x, axis=None: -x.sum(axis=axis)).failures[0]
        assert failure.misconception is None
        assert failure.sentence == failure.broken == "a sum of positive numbers is positive"

    @pytest.mark.parametrize(
        ("refuse", "words"),
        [
            (lambda: None, "expected a ValueError to be raised here; your code returned None"),
            (lambda: ValueError("empty"), "your code returned a ValueError; write `raise ValueError(...)`"),
            (lambda: [][0], "expected a ValueError here, got IndexError"),
        ],
    )
    def test_an_error_that_is_asked_for(self, refuse, words):
        report = examined(lambda x, axis=None: refuse() if x.size == 0 else x.sum(axis=axis))
        assert report.score == 3.5
        assert report.failures[0].fault.startswith(words)

    def test_another_message_of_the_same_error_is_not_the_same_mistake(self):
        exercise = toy()

        @exercise.misconception("You raise on everything.")
        def raises(x, axis=None):
            raise ValueError("I never liked sums")

        def other(x, axis=None):
            raise ValueError("a different trouble")

        def same(x, axis=None):
            raise ValueError("I never liked sums")

        assert examine(exercise, local(other), 5).failures[0].misconception is None
        assert examine(exercise, local(same), 5).failures[0].misconception == "raises"

    def test_of_two_that_agree_the_one_that_agrees_more_is_named(self):
        exercise = toy()

        @exercise.misconception("You ignore `axis`, and change the input.")
        def both(x, axis=None):
            result = x.sum()
            x *= 0
            return result

        report = examine(exercise, local(exercise.misconceptions[-1].function), 5)
        assert report.diagnosis == "both"
        assert examine(exercise, local(lambda x, axis=None: x.sum()), 5).diagnosis == "axis_ignored"

    def test_a_mistake_that_does_not_fit_every_failing_case_is_not_named(self):
        """Two faults in one answer do not make a third."""

        def two(x, axis=None):
            if not x.size:
                return 1.0
            return x.sum() if axis is not None else x.sum() + (x.ndim == 2)

        report = examined(two)
        assert [one.failure is not None for one in report.criteria] == [True, True, True, False]
        assert report.diagnosis is None, "`axis_ignored` fits the second criterion alone"

    def test_where_two_fit_both_are_offered(self):
        exercise = toy()

        @exercise.misconception("You add the rows and forget the columns.")
        def rows(x, axis=None):
            return x.sum(axis=0).sum()

        report = examine(exercise, local(lambda x, axis=None: x.sum() * (1 + 1e-12)), 5)
        failure = report.failures[0]
        assert failure.misconception == "axis_ignored or rows"
        assert failure.hint == "Either: You ignore `axis`. Or: You add the rows and forget the columns."

    def test_a_hint_that_names_a_library_call_needs_it_in_the_failing_line(self):
        exercise = toy()
        exercise.misconceptions.clear()

        @exercise.misconception("np.concatenate joins lists of arrays: wrap `x` in a list.")
        def joined(x, axis=None):
            return np.concatenate(x, np.zeros(3))

        join = np.concatenate

        def other(x, axis=None):
            return join(x, np.zeros(3))

        assert examine(exercise, local(joined), 5).diagnosis == "joined"
        assert examine(exercise, local(other), 5).diagnosis is None

    def test_a_slip_keeps_more_than_half(self):
        exercise = toy()
        exercise.misconceptions[0] = replace(exercise.misconceptions[0], gravity="slip")
        report = examine(exercise, local(exercise.misconceptions[0].function), 5)
        assert report.diagnosis == "mean"
        assert [one.earned for one in report.criteria] == [1.2, 0.6, 0.3, 0.5]

    def test_a_slip_beside_another_fault_is_no_slip(self):
        exercise = toy()
        exercise.misconceptions[0] = replace(exercise.misconceptions[0], gravity="slip")
        report = examine(exercise, local(lambda x, axis=None: x.mean(axis=axis) + (x.ndim == 2)), 5)
        assert report.score == 0

    def test_a_mistake_that_fails_a_criterion_that_is_met_is_anothers(self):
        exercise = toy()
        exercise.misconceptions.clear()

        @exercise.misconception("You take the mean over the whole array.")
        def mean_of_all(x, axis=None):
            return x.sum() if axis is not None else x.mean()

        @exercise.misconception("You return the sum of all where nothing is to be added, too.")
        def never_raises(x, axis=None):
            return x.sum()

        def right_for_nothing(x, axis=None):
            return right(x) if axis is not None else right(x, axis)

        report = examine(exercise, local(right_for_nothing), 5)
        assert [one.failure is None for one in report.criteria] == [True, False, True, True]
        assert report.diagnosis is None
        assert examine(exercise, local(lambda x, axis=None: x.sum()), 5).diagnosis == "never_raises"

    def test_inputs_of_a_call_that_raised_name_no_mistake(self):
        """Their criterion fails with the values, for the same reason."""
        exercise = toy()

        @exercise.misconception("You add a name that is not there.")
        def raises_without_an_axis(x, axis=None):
            return x.total() if axis is None else x.sum()

        def raises(x, axis=None):
            return x.total()

        report = examine(exercise, local(raises), 5)
        assert report.criteria[3].failure is not None
        assert report.diagnosis is None

    def test_the_reference_answers_in_float64(self):
        def fragile(x):
            return (x + 1e8) - 1e8

        def single(rng):
            return [Case("float32", (rng.normal(size=3).astype(np.float32),))]

        exercise = Exercise("toy/same", "same(x)", "Same.", fragile, (Criterion("same", 1, single),))
        assert examine(exercise, local(lambda x: x), 0).passed
        assert not examine(exercise, local(fragile), 0).passed

    def test_what_is_printed_or_warned_costs_nothing(self, capsys):
        def loud(x, axis=None):
            print("hello")
            np.log(np.zeros(1))
            return right(x, axis)

        assert examined(loud).passed
        assert "hello" not in capsys.readouterr().out

    def test_a_forbidden_call_ends_it(self):
        import math

        report = examined(lambda x, axis=None: math.fsum(x.ravel()))
        assert report.status == "forbidden"
        assert report.forbidden == "math.fsum"


class TestWhatIsTold:
    """A failure as a beginner reads it."""

    def test_a_name_that_is_not_defined(self):
        def total(x, axis=None):
            return plus(x, axis)

        report = examined(total)
        assert "Define or import `plus` before it is used here" in report.failures[0].fault
        assert "notebook" not in report.failures[0].fault, "it may be a plain file"
        assert str(report).count("Define or import") == 1

    @pytest.mark.slow
    def test_a_wrong_number_stays_a_wrong_number_in_a_smaller_case(self):
        def layer_norm(x, weight, bias, eps=1e-5):
            """One channel alone has no unbiased variance."""
            centred = x - x.mean(-1, keepdim=True)
            return centred / (x.var(-1, keepdim=True) + eps).sqrt() * weight + bias

        report = report_on("ch06_blocks/layer_norm", layer_norm, shrinking=True)
        assert all("nan" not in failure.fault for failure in report.failures)
        assert report.failures[0].case == "smallest case"

    def test_a_smaller_case_that_fails_in_another_way_is_not_shown(self):
        def total(x, axis=None):
            if x.size > 15 or axis is not None or not x.size:
                return right(x, axis) + 1
            return right(x) if x.size == 3 else np.nan

        failure = examined(total).failures[0]
        assert "got nan" not in failure.fault
        assert failure.call == "total(x=<array of shape (4, 4)>)"

    @pytest.mark.slow
    def test_a_change_in_place_that_torch_refuses(self):
        def layer_norm(x, weight, bias, eps=1e-5):
            x -= x.mean(-1, keepdim=True)
            x /= (x.var(-1, keepdim=True, correction=0) + eps).sqrt()
            return x * weight + bias

        faults = [f.fault for f in report_on("ch06_blocks/layer_norm", layer_norm).failures]
        assert faults[0].startswith("your code changes its input `x` in place")
        assert "anomaly" not in faults[0]

    @pytest.mark.slow
    def test_a_change_in_place_of_something_else_than_the_input(self):
        def layer_norm(x, weight, bias, eps=1e-5):
            std = (x.var(-1, keepdim=True, correction=0) + eps).sqrt()
            y = (x - x.mean(-1, keepdim=True)) / std
            std += 1
            return y * weight + bias

        (failure,) = report_on("ch06_blocks/layer_norm", layer_norm).failures
        assert failure.fault.startswith("your code changes a tensor in place")

    @pytest.mark.slow
    def test_gradients_and_results_are_named(self):
        def layer_norm(x, weight, bias, eps=1e-5):
            mean, var = x.mean(-1, keepdim=True).detach(), x.var(-1, keepdim=True, correction=0)
            return (x - mean) / (var + eps).sqrt() * weight + bias

        (failure,) = report_on("ch06_blocks/layer_norm", layer_norm).failures
        assert failure.fault.startswith("the gradient with respect to `x`: expected")

        def project_qkv(x, W_q, W_k, W_v):
            return x @ W_q, x @ W_v, x @ W_k

        failure = report_on("ch02_qkv/project_qkv", project_qkv).failures[0]
        assert failure.fault.startswith("`k` (result 2 of 3): expected")

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["ch04_multi_head/MultiHeadAttention", "ch06_blocks/TransformerBlock"])
    def test_a_module_without_forward_is_not_blank(self, name):
        class Misspelt(exercises.find(name).styles[0].function):
            forward = torch.nn.Module.forward

        report = report_on(name, Misspelt)
        assert (report.status, report.score) == ("examined", 0)
        assert all("there is no" in f.fault or "no method `forward`" in f.fault for f in report.failures)

    @pytest.mark.slow
    def test_a_module_that_does_not_begin_with_super(self):
        class MultiHeadAttention(torch.nn.Module):
            def __init__(self, d_model, num_heads, bias=True):
                self.W_q = torch.nn.Linear(d_model, d_model)

        failure = report_on("ch04_multi_head/MultiHeadAttention", MultiHeadAttention).failures[0]
        assert failure.fault.endswith("Let `__init__` begin with `super().__init__()`")

    @pytest.mark.slow
    def test_the_call_can_be_pasted(self):
        def softmax(x, axis=-1):
            return x

        call = report_on("ch02_qkv/softmax", softmax).failures[0].call
        eval(call, {"np": np, "softmax": softmax})
        assert call.startswith("softmax(x=np.array([")
        call = examined(lambda x, axis=None: x.sum()).failures[0].call
        assert call.endswith(", axis=0)")


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH)
def test_the_cases_are_never_changed(name):
    """Even an answer that writes into everything it gets leaves the cases as they were drawn."""

    def vandal(*args, **kwargs):
        for value in arrays(args, kwargs):
            value[...] = 0
        return 0

    exercise = exercises.find(name)
    drawn = list(exercise.draw(3))
    frozen = type("Frozen", (), {"draw": lambda self, seed: iter(drawn)})()
    for attribute in (*vars(exercise), "points", "function_name"):
        setattr(frozen, attribute, getattr(exercise, attribute))
    examine(frozen, local(vandal), 3)
    for (_, now), (_, fresh) in zip(drawn, exercise.draw(3), strict=True):
        for case, other in zip(now, fresh, strict=True):
            assert alike((case.args, case.kwargs), (other.args, other.kwargs)), case.says


def test_a_sentence_has_the_singular_after_1_and_no_negative_zero():
    said = "you accept 1 guesses of 1 tokens; 11 layers, y[-0] and -1 steps, by -0, -0.5 or -0.0"
    told = explanation.tidied(said)
    assert told == "you accept 1 guess of 1 token; 11 layers, y[-0] and -1 steps, by 0, -0.5 or 0"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_call_can_be_told(name):
    exercise = exercises.find(name)
    told = [explanation.format_call(exercise, case) for _, case in cases(name)]
    assert all(call.startswith(f"{exercise.function_name}(") for call in told)
    assert max(map(len, told)) <= explanation.SHORT


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_strided_inputs_reach_the_student_strided(name):
    for _, case in cases(name):
        given = local(lambda *args, **kwargs: args)(replace(case, probe="call")).value
        for value, original in zip(arrays(given), arrays(case.args), strict=True):
            assert _is_contiguous(value) == _is_contiguous(original)
            assert not np.shares_memory(numbers(value), numbers(original))


def _is_contiguous(array):
    return array.is_contiguous() if is_tensor(array) else array.flags.c_contiguous


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_reports_survive_the_journey(name):
    from autograder.checking.report import Report

    for report in reports(name, PUBLIC_SEED).values():
        assert Report.from_dict(json.loads(json.dumps(report.as_dict()))) == report


def test_what_a_call_leaves_in_its_inputs_is_seen_in_the_call_whose_value_is_judged():
    exercise = exercises.find("ch02_qkv/softmax")
    calls = []

    def counted(x, axis=-1):
        calls.append(x.shape)
        return exercise.reference(x, axis)

    assert examine(exercise, local(counted), seed=1).passed
    observed = {criterion.observes: len(cases) for criterion, cases in exercise.draw(1)}
    assert observed["arguments"] > 10
    values = sum(len(cases) for criterion, cases in exercise.draw(1) if criterion.observes == "value")
    assert len(calls) == values


def test_what_is_written_in_part_has_the_points_of_that_part():
    """An honest `NotImplementedError` in one branch is no blank answer."""

    def total(x, axis=None):
        if axis is not None:
            raise NotImplementedError("only the sum of all")
        if not x.size:
            raise ValueError
        return x.sum()

    report = examined(total)
    assert report.status == "examined"
    assert 0 < report.score < report.max_score
    assert "only the sum of all" in report.failures[0].fault


@pytest.mark.slow
def test_a_nest_of_lists_is_described_in_a_few_words():
    def tree(depth):
        return [tree(depth - 1) for _ in range(3)] if depth else [[], [], []]

    report = examined(lambda x, axis=None: tree(8))
    assert not report.passed
    assert all(len(failure.fault) < 600 for failure in report.failures)
