"""`check` takes whatever a student may have written under the exercise's name."""

from functools import partial

import numpy as np
import pytest

from autograder import check


def right(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


class Callable:
    def __call__(self, x, axis=-1):
        return right(x, axis)


@pytest.mark.slow
@pytest.mark.parametrize("made", [lambda x, axis=-1: right(x, axis), Callable(), partial(right)])
def test_a_function_without_its_name_is_known_by_what_it_is_assigned_to(made, monkeypatch, capsys):
    monkeypatch.setitem(globals(), "softmax", made)
    assert check(made).passed
    assert "3 of 3 points" in capsys.readouterr().out


def test_the_exercise_can_be_named():
    assert check(right, "softmax").passed
    assert check(right, "ch02_qkv/softmax").passed


@pytest.mark.parametrize("thing", [None, "softmax", np.ones(3)])
def test_what_is_no_function_is_told_so(thing):
    with pytest.raises(TypeError, match="check expects your function itself"):
        check(thing)


def test_an_unknown_name_is_told_with_the_known_ones():
    with pytest.raises(LookupError, match="ch02_qkv/softmax"):
        check(right)
