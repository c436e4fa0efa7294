"""`check(softmax)`, as a student calls it in the notebook."""

import numpy as np
import pytest

import autograder
from autograder.exercises import UnknownExerciseError, find, names, of_assignment


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def test_it_prints_and_returns_the_report(capsys):
    report = autograder.check(softmax)
    assert report.passed
    assert report.score == 3.0
    assert capsys.readouterr().out.startswith("softmax: 3 of 3 points")


def test_a_function_of_another_name(capsys):
    def my_version(x, axis=-1):
        return softmax(x, axis)

    assert autograder.check(my_version, "softmax").passed
    assert autograder.check(my_version, "ch02_qkv/softmax").passed
    with pytest.raises(UnknownExerciseError, match=r"my_version.*softmax"):
        autograder.check(my_version)


def test_a_blank_one(capsys):
    def attention_scores(query, key):
        raise NotImplementedError()

    report = autograder.check(attention_scores)
    assert report.score == 0
    assert "Not written yet" in capsys.readouterr().out


def test_the_reference_package_is_no_answer(capsys):
    from tfcore import ops

    def softmax(x, axis=-1):
        return ops.softmax(x, axis)

    report = autograder.check(softmax)
    assert report.status == "forbidden"
    assert "tfcore" in report.forbidden


def test_the_catalogue():
    assert [e.name for e in of_assignment("ch02_qkv")] == [n for n in names() if n.startswith("ch02")]
    with pytest.raises(UnknownExerciseError, match="ch99"):
        of_assignment("ch99")
    assert find("softmax") is find("ch02_qkv/softmax")
